#include "tokenizer/classes.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kMark = "\u2581";  // a space

// The languages of NLLB-200, which NllbTokenizer adds if no file lists tokens.
constexpr std::string_view kNllbLanguages =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn";

constexpr std::array kGpt2Tokens{ClassToken{"bos_token", "<|endoftext|>"}, ClassToken{"eos_token", "<|endoftext|>"},
                                 ClassToken{"unk_token", "<|endoftext|>"}, ClassToken{"pad_token", ""}};
constexpr std::array kNeoXTokens{ClassToken{"bos_token", "<|endoftext|>"}, ClassToken{"eos_token", "<|endoftext|>"},
                                 ClassToken{"unk_token", "<|endoftext|>"}, ClassToken{"pad_token", "<|padding|>"}};
constexpr std::array kQwen2Tokens{ClassToken{"eos_token", "<|endoftext|>"}, ClassToken{"unk_token", "<|endoftext|>"},
                                  ClassToken{"pad_token", "<|endoftext|>"}};
constexpr std::array kRobertaTokens{ClassToken{"bos_token", "<s>"},    ClassToken{"eos_token", "</s>"},
                                    ClassToken{"unk_token", "<unk>"},  ClassToken{"sep_token", "</s>"},
                                    ClassToken{"pad_token", "<pad>"},  ClassToken{"cls_token", "<s>"},
                                    ClassToken{"mask_token", "<mask>"}};
constexpr std::array kNllbTokens{
    ClassToken{"bos_token", "<s>"},
    ClassToken{"eos_token", "</s>"},
    ClassToken{"unk_token", "<unk>"},
    ClassToken{"sep_token", "</s>"},
    ClassToken{"pad_token", "<pad>"},
    ClassToken{"cls_token", "<s>"},
    ClassToken{"mask_token", "<mask>", /*object=*/true, /*lstrip=*/true, /*normalized=*/true}};
constexpr std::array kMpnetTokens{ClassToken{"bos_token", "<s>", /*object=*/true},
                                  ClassToken{"eos_token", "</s>", /*object=*/true},
                                  ClassToken{"unk_token", "[UNK]", /*object=*/true},
                                  ClassToken{"sep_token", "</s>", /*object=*/true},
                                  ClassToken{"pad_token", "<pad>", /*object=*/true},
                                  ClassToken{"cls_token", "<s>", /*object=*/true},
                                  ClassToken{"mask_token", "<mask>", /*object=*/true, /*lstrip=*/true}};
constexpr std::array kGemmaTokens{ClassToken{"bos_token", "<bos>"}, ClassToken{"eos_token", "<eos>"},
                                  ClassToken{"unk_token", "<unk>"}, ClassToken{"pad_token", "<pad>"},
                                  ClassToken{"mask_token", "<mask>"}};
constexpr std::array kLlamaTokens{ClassToken{"bos_token", "<s>"}, ClassToken{"eos_token", "</s>"},
                                  ClassToken{"unk_token", "<unk>"}};
constexpr std::array kCodeLlamaTokens{ClassToken{"bos_token", "<s>"},       ClassToken{"eos_token", "</s>"},
                                      ClassToken{"unk_token", "<unk>"},     ClassToken{"prefix_token", "▁<PRE>"},
                                      ClassToken{"middle_token", "▁<MID>"}, ClassToken{"suffix_token", "▁<SUF>"},
                                      ClassToken{"eot_token", "▁<EOT>"},    ClassToken{"fill_token", "<FILL_ME>"}};
constexpr std::array kT5Tokens{ClassToken{"eos_token", "</s>"}, ClassToken{"unk_token", "<unk>"},
                               ClassToken{"pad_token", "<pad>"}};
constexpr std::array kBertTokens{ClassToken{"unk_token", "[UNK]"}, ClassToken{"sep_token", "[SEP]"},
                                 ClassToken{"pad_token", "[PAD]"}, ClassToken{"cls_token", "[CLS]"},
                                 ClassToken{"mask_token", "[MASK]"}};

constexpr std::array kMarianTokens{ClassToken{"eos_token", "</s>"}, ClassToken{"unk_token", "<unk>"},
                                   ClassToken{"pad_token", "<pad>"}};
constexpr std::array kM2m100Tokens{ClassToken{"bos_token", "<s>"}, ClassToken{"eos_token", "</s>"},
                                   ClassToken{"unk_token", "<unk>"}, ClassToken{"sep_token", "</s>"},
                                   ClassToken{"pad_token", "<pad>"}};

class ClassBuilder {
 public:
  ClassBuilder(ClassFiles files, const TokenizerConfig& config, std::string_view name)
      : files_(std::move(files)), config_(config), name_(name) {}

  PipelineParts build() {
    if (name_ == "GPT2Tokenizer" || name_ == "CodeGenTokenizer") {
      gpt2();
    } else if (name_ == "GPTNeoXTokenizer") {
      gpt_neox();
    } else if (name_ == "Qwen2Tokenizer") {
      qwen2();
    } else if (name_ == "RobertaTokenizer") {
      roberta();
    } else if (name_ == "GemmaTokenizer") {
      gemma();
    } else if (name_ == "LlamaTokenizer" || name_ == "CodeLlamaTokenizer") {
      llama();
    } else if (name_ == "NllbTokenizer") {
      nllb();
    } else if (name_ == "T5Tokenizer") {
      t5();
    } else if (name_ == "XLMRobertaTokenizer") {
      xlm_roberta();
    } else {
      bert();
    }
    config_.finish(&parts_, tokens_, files_.kind == VocabularyKind::bpe);
    return std::move(parts_);
  }

 private:
  // The class's argument additional_special_tokens.
  std::optional<std::vector<AddedToken>> additional() const {
    return files_.pieces ? files_.pieces : config_.additional();
  }

  void read_tokens(const std::optional<std::vector<AddedToken>>& additional, bool null_is_no_list = false) {
    tokens_ = special_tokens_of(config_,
                                {.defaults = tokens_of_class(name_),
                                 .of_file = files_.added,
                                 .padding = files_.padding,
                                 .null_is_no_list = null_is_no_list,
                                 .additional = additional},
                                files_.where);
  }
  void read_tokens() { read_tokens(additional()); }

  // A token that the class requires; transformers fails without it, too.
  std::string need(const std::string& key) const {
    std::string content = tokens_.content(key);
    if (content.empty()) throw FormatError(files_.where + ": " + std::string(name_) + " needs a " + key);
    return content;
  }

  void set_lexicon(ModelPtr model, std::vector<AddedToken> more = {}) {
    const auto lexicon = std::make_shared<Lexicon>();
    lexicon->model = std::move(model);
    std::vector<AddedToken> added = tokens_.added;
    added.insert(added.end(), more.begin(), more.end());
    lexicon->added = AddedTokens(std::move(added), lexicon->model->tokens(), parts_.normalizer.get(), files_.where);
    parts_.lexicon = lexicon;
  }

  void set_bpe(BpeOptions options, std::vector<AddedToken> more = {}) {
    set_lexicon(make_bpe(std::move(files_.table), files_.merges, std::move(options), files_.where), std::move(more));
  }

  void set_unigram(int32_t unk_id) {
    set_lexicon(make_unigram(std::move(files_.table), std::move(files_.scores), {.unk_id = unk_id}, files_.where));
  }

  // The post-processor of tokenizer.json, or begin and end tokens as the configuration sets them.
  void set_ends_of_file(bool bos_by_default = false) {
    if (files_.json && !bos_by_default) {
      if (files_.post_processor) parts_.post_processor = files_.post_processor(parts_.lexicon);
    } else {
      parts_.post_processor = make_ends(*parts_.lexicon, tokens_, config_, bos_by_default, files_.json, files_.where);
    }
  }

  TemplatePiece added(const std::string& content, int32_t type_id = 0) const {
    return {.ids = {id_of(*parts_.lexicon, content, files_.where)}, .type_id = type_id};
  }

  // As in transformers, a text without a token maps to the unknown token.
  TemplatePiece added_or_unknown(const std::string& content) const {
    return added(parts_.lexicon->id_of(content) != TokenTable::kNone ? content : need("unk_token"));
  }

  bool prefix(bool otherwise) const { return config_.boolean_or("add_prefix_space", otherwise); }

  void gpt2() {
    read_tokens();
    set_bpe({});
    set_byte_level_words(prefix(false), &parts_);
    set_ends_of_file();
  }

  void gpt_neox() {
    read_tokens();
    parts_.normalizer = make_normal_form(NormalForm::c);
    set_bpe({});
    set_byte_level_words(prefix(false), &parts_);
    // With tokenizer.json, its post-processor, add_bos_token and add_eos_token are ignored.
    if (!files_.json) parts_.post_processor = make_ends(*parts_.lexicon, tokens_, config_, false, false, files_.where);
  }

  void qwen2() {
    read_tokens();
    parts_.normalizer = make_normal_form(NormalForm::c);
    std::vector<AddedToken> again;
    for (const std::string& content : tokens_.all) again.push_back({.content = content, .special = true});
    set_bpe({}, std::move(again));
    parts_.pre_tokenizer = make_qwen2_words(prefix(false));
    parts_.decoder = make_byte_level_decoder();
    set_ends_of_file();
  }

  void roberta() {
    read_tokens();
    const std::string cls = need("cls_token"), sep = need("sep_token");
    set_bpe({});
    const bool with_prefix = prefix(false);
    set_byte_level_words(with_prefix, &parts_);
    parts_.post_processor =
        make_roberta_processor(id_of(*parts_.lexicon, cls, files_.where), id_of(*parts_.lexicon, sep, files_.where),
                               config_.boolean_or("trim_offsets", true), with_prefix, model_text(parts_.lexicon));
  }

  void gemma() {
    read_tokens();
    parts_.normalizer = make_replace(Pattern(std::string(" ")), kMark);
    parts_.pre_tokenizer = make_split(Pattern(std::string(" ")), SplitBehavior::merged_with_previous, false);
    set_bpe({.unk_token = need("unk_token"), .fuse_unk = true, .byte_fallback = true});
    parts_.decoder = make_fallback_decoder(/*strip=*/false);
    set_ends_of_file();
  }

  void llama() {
    const bool code = name_ == "CodeLlamaTokenizer", with_prefix = prefix(true);
    std::optional<std::vector<AddedToken>> tokens = additional();
    if (code) {
      if (!tokens) tokens.emplace();
      for (const ClassToken& one : tokens_of_class(name_).subspan(3))
        if (const auto token = config_.argument(one)) tokens->push_back(*token);
    }
    read_tokens(tokens);
    MetaspaceOptions o;
    o.prepend = !with_prefix                                   ? PrependScheme::never
                : !code && config_.boolean_or("legacy", false) ? PrependScheme::always
                                                               : PrependScheme::first;
    o.split = false;
    parts_.pre_tokenizer = make_metaspace(o);
    parts_.decoder = make_fallback_decoder(/*strip=*/code || with_prefix);
    set_bpe({.unk_token = code ? need("unk_token") : "", .fuse_unk = true, .byte_fallback = true});
    set_ends_of_file(/*bos_by_default=*/code);
  }

  void set_words_by_mark(bool with_prefix) {
    const MetaspaceOptions o{.prepend = with_prefix ? PrependScheme::always : PrependScheme::never};
    std::vector<PreTokenizerPtr> words;
    words.push_back(make_whitespace_split());
    words.push_back(make_metaspace(o));
    parts_.pre_tokenizer = make_sequence(std::move(words));
    parts_.decoder = make_metaspace_decoder(o);
  }

  void t5() {
    const int64_t extra_ids = std::clamp<int64_t>(config_.integer_or("extra_ids", 100), 0, kMostExtraIds);
    std::vector<AddedToken> more = additional().value_or(std::vector<AddedToken>());
    const auto given = std::count_if(more.begin(), more.end(), [](const AddedToken& token) {
      return token.content.find("<extra_id_") != std::string::npos;
    });
    if (given == 0)
      for (int64_t i = 0; i < extra_ids; ++i)
        more.push_back({.content = "<extra_id_" + std::to_string(i) + ">", .special = true, .text = true});
    if (given > 0 && extra_ids > 0 && given != extra_ids)
      throw FormatError(files_.where + ": " + std::to_string(given) + " tokens <extra_id_...>, but extra_ids is " +
                        std::to_string(extra_ids));
    read_tokens(more);
    parts_.normalizer = make_precompiled(files_.character_map, files_.where);
    set_words_by_mark(true);
    set_unigram(2);
    const TemplatePiece end = added(need("eos_token"));
    parts_.post_processor = make_template({{.sequence = 0}, end}, {{.sequence = 0}, end, {.sequence = 1}, end});
  }

  void xlm_roberta() {
    read_tokens();
    parts_.normalizer = make_precompiled(files_.character_map, files_.where);
    set_words_by_mark(prefix(true));
    set_unigram(3);
    const TemplatePiece begin = added(need("bos_token")), end = added(need("eos_token"));
    parts_.post_processor =
        make_template({begin, {.sequence = 0}, end}, {begin, {.sequence = 0}, end, end, {.sequence = 1}, end});
  }

  // The language token comes before the text, in the old form after it.
  void nllb() {
    std::optional<std::vector<AddedToken>> languages = additional();
    if (!languages) {
      languages.emplace();
      for (std::string_view rest = kNllbLanguages; !rest.empty();) {
        const size_t length = std::min(rest.find(' '), rest.size());
        languages->push_back({.content = std::string(rest.substr(0, length)), .special = true, .text = true});
        rest.remove_prefix(std::min(length + 1, rest.size()));
      }
    }
    read_tokens(languages, /*null_is_no_list=*/true);
    if (!files_.character_map.empty()) {
      std::vector<NormalizerPtr> normalizers;
      normalizers.push_back(make_precompiled(files_.character_map, files_.where));
      normalizers.push_back(make_replace(Pattern(Regex(" {2,}", files_.where)), " "));
      parts_.normalizer = make_sequence(std::move(normalizers));
    }
    parts_.pre_tokenizer = make_metaspace({});
    parts_.decoder = make_metaspace_decoder({});
    set_bpe({.unk_token = need("unk_token"), .fuse_unk = true});
    const TemplatePiece language = added_or_unknown(config_.text_or("src_lang", "eng_Latn"));
    const TemplatePiece end = added(need("eos_token"));
    if (config_.boolean_or("legacy_behaviour", false)) {
      parts_.post_processor =
          make_template({{.sequence = 0}, end, language}, {{.sequence = 0}, {.sequence = 1}, end, language});
    } else {
      parts_.post_processor =
          make_template({language, {.sequence = 0}, end}, {language, {.sequence = 0}, {.sequence = 1}, end});
    }
  }

  void bert() {
    read_tokens();
    const bool mpnet = name_ == "MPNetTokenizer";
    const std::string cls = need("cls_token"), sep = need("sep_token");
    parts_.normalizer =
        make_bert_normalizer({.handle_chinese_chars = config_.boolean_or("tokenize_chinese_chars", true),
                              .strip_accents = config_.boolean("strip_accents"),
                              .lowercase = config_.boolean_or("do_lower_case", true)});
    set_lexicon(make_wordpiece(std::move(files_.table), {.unk_token = need("unk_token")}, files_.where));
    parts_.pre_tokenizer = make_bert_pre_tokenizer();
    const int32_t cls_id = id_of(*parts_.lexicon, cls, files_.where),
                  sep_id = id_of(*parts_.lexicon, sep, files_.where);
    parts_.post_processor =
        mpnet ? make_roberta_processor(cls_id, sep_id, false, false, {}) : make_bert_processor(cls_id, sep_id);
    parts_.decoder = make_wordpiece_decoder("##", true);
  }

  ClassFiles files_;
  const TokenizerConfig& config_;
  std::string_view name_;
  SpecialTokens tokens_;
  PipelineParts parts_;
};

}  // namespace

std::optional<VocabularyKind> kind_of_class(std::string_view name) {
  for (const std::string_view bpe :
       {"GPT2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "RobertaTokenizer", "GemmaTokenizer",
        "LlamaTokenizer", "CodeLlamaTokenizer", "NllbTokenizer"})
    if (name == bpe) return VocabularyKind::bpe;
  if (name == "T5Tokenizer" || name == "XLMRobertaTokenizer") return VocabularyKind::unigram;
  if (name == "BertTokenizer" || name == "DistilBertTokenizer" || name == "MPNetTokenizer")
    return VocabularyKind::wordpiece;
  return std::nullopt;
}

SpecialTokens special_tokens_of(const TokenizerConfig& config, const TokenSources& sources, const std::string& where) {
  SpecialTokens tokens = config.special_tokens(sources);
  if (!tokens.replaced.empty())
    throw FormatError(where + ": its tokenizer_config.json or special_tokens_map.json has another " + tokens.replaced +
                      " in extra_special_tokens or model_specific_special_tokens; remove it there");
  return tokens;
}

std::span<const ClassToken> tokens_of_class(std::string_view name) {
  if (name == "GPT2Tokenizer" || name == "CodeGenTokenizer") return kGpt2Tokens;
  if (name == "GPTNeoXTokenizer") return kNeoXTokens;
  if (name == "Qwen2Tokenizer") return kQwen2Tokens;
  if (name == "RobertaTokenizer" || name == "XLMRobertaTokenizer") return kRobertaTokens;
  if (name == "GemmaTokenizer") return kGemmaTokens;
  if (name == "LlamaTokenizer") return kLlamaTokens;
  if (name == "CodeLlamaTokenizer") return kCodeLlamaTokens;
  if (name == "NllbTokenizer") return kNllbTokens;
  if (name == "T5Tokenizer") return kT5Tokens;
  if (name == "MPNetTokenizer") return kMpnetTokens;
  if (name == "BertTokenizer" || name == "DistilBertTokenizer") return kBertTokens;
  if (name == "MarianTokenizer") return kMarianTokens;
  if (name == "M2M100Tokenizer") return kM2m100Tokens;
  return {};
}

PipelineParts build_class(std::string_view name, ClassFiles files, const TokenizerConfig& config) {
  return ClassBuilder(std::move(files), config, name).build();
}

void set_byte_level_words(bool add_prefix_space, PipelineParts* parts) {
  parts->pre_tokenizer =
      make_byte_level({.add_prefix_space = add_prefix_space, .leave_bytes = parts->lexicon->model->takes_bytes()});
  parts->decoder = make_byte_level_decoder();
}

PreTokenizerPtr make_qwen2_words(bool add_prefix_space) {
  constexpr std::string_view kWords =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(make_split(Pattern(Regex(kWords, "Qwen2Tokenizer")), SplitBehavior::isolated, false));
  parts.push_back(make_byte_level({.add_prefix_space = add_prefix_space, .use_regex = false, .leave_bytes = true}));
  return make_sequence(std::move(parts));
}

DecoderPtr make_fallback_decoder(bool strip) {
  std::vector<DecoderPtr> decoders;
  decoders.push_back(make_replace_decoder(Pattern(std::string(kMark)), " "));
  decoders.push_back(make_byte_fallback_decoder());
  decoders.push_back(make_fuse_decoder());
  if (strip) decoders.push_back(make_strip_decoder(" ", 1, 0));
  return make_sequence(std::move(decoders));
}

PostProcessorPtr make_ends(const Lexicon& lexicon, const SpecialTokens& tokens, const TokenizerConfig& config,
                           bool bos_by_default, bool json, const std::string& where) {
  // transformers ignores both keys if there is a tokenizer.json.
  const std::string bos = tokens.content("bos_token"), eos = tokens.content("eos_token");
  const bool begins = json ? bos_by_default : config.boolean_or("add_bos_token", bos_by_default);
  const bool ends = !json && config.boolean_or("add_eos_token", false);
  const auto added = [&](const std::string& content, int32_t type_id) {
    return TemplatePiece{.ids = {id_of(lexicon, content, where)}, .type_id = type_id};
  };
  std::vector<TemplatePiece> single, pair;
  for (int32_t i = 0; i < 2; ++i) {
    if (begins && !bos.empty()) pair.push_back(added(bos, i));
    pair.push_back({.sequence = i, .type_id = i});
    if (ends && !eos.empty()) pair.push_back(added(eos, i));
    if (i == 0) single = pair;
  }
  return make_template(std::move(single), std::move(pair));
}

int32_t id_of(const Lexicon& lexicon, const std::string& token, const std::string& where) {
  const int32_t id = lexicon.id_of(token);
  if (id == TokenTable::kNone) throw FormatError(where + ": the vocabulary has no '" + token + "'");
  return id;
}

}  // namespace heed::inline v0
