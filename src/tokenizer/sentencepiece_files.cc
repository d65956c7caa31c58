// Directories with a sentencepiece model and no tokenizer.json: the same parts as transformers makes of them for the
// class that tokenizer_config.json names.
#include <algorithm>

#include "heed/error.h"
#include "text/model_proto_reader.h"
#include "text/unicode.h"
#include "tokenizer/load.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kMark = "\u2581";

// A token and its score.
using Scored = std::pair<std::string, double>;

std::vector<std::string_view> texts_of(const std::vector<Scored>& pieces) {
  std::vector<std::string_view> texts;
  for (const Scored& piece : pieces) texts.emplace_back(piece.first);
  return texts;
}

DecoderPtr fallback_decoder(bool strip) {
  std::vector<DecoderPtr> decoders;
  decoders.push_back(make_replace_decoder(Pattern(std::string(kMark)), " "));
  decoders.push_back(make_byte_fallback_decoder());
  decoders.push_back(make_fuse_decoder());
  if (strip) decoders.push_back(make_strip_decoder(" ", 1, 0));
  return make_sequence(std::move(decoders));
}

class Reader {
 public:
  Reader(const std::string& bytes, const std::string& where, const TokenizerConfig& config)
      : where_(where), config_(config), model_(read_model_proto(bytes, where)) {
    for (const SentencePiece& piece : model_.pieces) {
      pieces_.emplace_back(piece.text, piece.score);
      if (piece.type == SentencePiece::control || piece.type == SentencePiece::user_defined)
        added_.push_back({.content = piece.text, .special = piece.type == SentencePiece::control});
    }
  }

  std::shared_ptr<const Pipeline> read() {
    const std::string name = config_.class_name();
    const bool unigram = model_.kind == SentencePieceModel::unigram;
    if (!unigram && (name == "LlamaTokenizer" || name == "CodeLlamaTokenizer" || name.empty())) {
      llama();
    } else if (!unigram && name == "GemmaTokenizer") {
      gemma();
    } else if (!unigram && name == "NllbTokenizer") {
      nllb();
    } else if (unigram && name == "T5Tokenizer") {
      t5();
    } else if (unigram && name == "XLMRobertaTokenizer") {
      xlm_roberta();
    } else {
      throw FormatError(where_ + ": heed does not know how a " + (name.empty() ? "tokenizer without a class" : name) +
                        " reads a " + (unigram ? "unigram" : "BPE") +
                        " model; add its tokenizer.json, which transformers saves");
    }
    config_.finish(&parts_, /*bpe=*/!unigram);
    return std::make_shared<const Pipeline>(std::move(parts_));
  }

 private:
  std::string token(const char* key, const char* otherwise) const { return config_.token_or(key, otherwise); }

  void special(std::string content, bool lstrip = false) {
    added_.push_back({.content = std::move(content), .lstrip = lstrip, .special = true});
  }

  int32_t id_of(const std::string& content) const {
    int32_t id = parts_.lexicon->added.id_of(content);
    if (id == TokenTable::kNone) id = parts_.lexicon->model->tokens().find(content);
    if (id == TokenTable::kNone) throw FormatError(where_ + ": the vocabulary has no '" + content + "'");
    return id;
  }

  TemplatePiece added(const std::string& content, int32_t type_id = 0) const {
    return {.ids = {id_of(content)}, .type_id = type_id};
  }

  void set_model(ModelPtr model) {
    const auto lexicon = std::make_shared<Lexicon>();
    lexicon->model = std::move(model);
    lexicon->added =
        AddedTokens(config_.special_tokens(added_), lexicon->model->tokens(), parts_.normalizer.get(), where_);
    parts_.lexicon = lexicon;
  }

  ModelPtr bpe(const std::vector<Scored>& tokens, bool byte_fallback) const {
    TokenTable table;
    for (size_t id = 0; id < tokens.size(); ++id) table.add(tokens[id].first, static_cast<int32_t>(id));
    table.finish(where_);
    const std::vector<Merge> merges = merges_of(texts_of(pieces_), table);
    BpeOptions o;
    o.unk_token = token("unk_token", model_.unk_piece.c_str());
    o.fuse_unk = true;
    o.byte_fallback = byte_fallback;
    return make_bpe(std::move(table), merges, std::move(o), where_);
  }

  ModelPtr unigram(const std::vector<Scored>& tokens, int32_t unk_id) const {
    TokenTable table;
    std::vector<double> scores;
    for (const auto& [text, score] : tokens) {
      table.add(text, static_cast<int32_t>(scores.size()));
      scores.push_back(score);
    }
    table.finish(where_);
    return make_unigram(std::move(table), std::move(scores), {.unk_id = unk_id}, where_);
  }

  void set_words_by_mark() {
    std::vector<PreTokenizerPtr> words;
    words.push_back(make_whitespace_split());
    words.push_back(make_metaspace({}));
    parts_.pre_tokenizer = make_sequence(std::move(words));
    parts_.decoder = make_metaspace_decoder({});
  }

  // The beginning and the end of a text, where the configuration asks for them.
  void set_ends() {
    std::vector<TemplatePiece> single, pair;
    const bool bos = config_.boolean_or("add_bos_token", false), eos = config_.boolean_or("add_eos_token", false);
    const std::string begin = token("bos_token", "<s>"), end = token("eos_token", "</s>");
    for (int32_t i = 0; i < 2; ++i) {
      if (bos) pair.push_back(added(begin, i));
      pair.push_back({.sequence = i, .type_id = i});
      if (eos) pair.push_back(added(end, i));
      if (i == 0) single = pair;
    }
    parts_.post_processor = make_template(std::move(single), std::move(pair));
  }

  void llama() {
    special(token("unk_token", "<unk>"));
    special(token("bos_token", "<s>"));
    special(token("eos_token", "</s>"));
    set_model(bpe(pieces_, true));
    set_llama_words(config_, &parts_);
    set_ends();
  }

  void gemma() {
    for (const char* key : {"pad_token", "eos_token", "bos_token", "unk_token"})
      special(token(key, ("<" + std::string(key).substr(0, 3) + ">").c_str()));
    parts_.normalizer = make_replace(Pattern(std::string(" ")), kMark);
    parts_.pre_tokenizer = make_split(Pattern(std::string(" ")), SplitBehavior::merged_with_previous, false);
    set_model(bpe(pieces_, true));
    set_ends();
    parts_.decoder = fallback_decoder(/*strip=*/false);
  }

  void t5() {
    const int64_t extra = std::clamp<int64_t>(config_.integer_or("extra_ids", 100), 0, 10000);
    std::vector<Scored> tokens = pieces_;
    for (int64_t i = extra - 1; i >= 0; --i) {
      tokens.emplace_back("<extra_id_" + std::to_string(i) + ">", 0.0);
      special(tokens.back().first);
    }
    for (const char* key : {"eos_token", "unk_token", "pad_token"})
      special(token(
          key, std::string_view(key) == "eos_token" ? "</s>" : ("<" + std::string(key).substr(0, 3) + ">").c_str()));
    parts_.normalizer = make_precompiled(model_.character_map, where_);
    set_words_by_mark();
    set_model(unigram(tokens, model_.unk_id));
    const TemplatePiece end = added(token("eos_token", "</s>"));
    parts_.post_processor = make_template({{.sequence = 0}, end}, {{.sequence = 0}, end, {.sequence = 1}, end});
  }

  void xlm_roberta() {
    const std::string bos = token("bos_token", "<s>"), eos = token("eos_token", "</s>");
    std::vector<Scored> tokens{{bos, 0}, {token("pad_token", "<pad>"), 0}, {eos, 0}, {token("unk_token", "<unk>"), 0}};
    for (const Scored& one : tokens) special(one.first);
    tokens.insert(tokens.end(), pieces_.begin() + static_cast<int64_t>(std::min<size_t>(3, pieces_.size())),
                  pieces_.end());
    tokens.emplace_back(token("mask_token", "<mask>"), 0.0);
    special(tokens.back().first, /*lstrip=*/true);
    parts_.normalizer = make_precompiled(model_.character_map, where_);
    set_words_by_mark();
    set_model(unigram(tokens, 3));
    const TemplatePiece begin = added(bos), end = added(eos);
    parts_.post_processor =
        make_template({begin, {.sequence = 0}, end}, {begin, {.sequence = 0}, end, end, {.sequence = 1}, end});
  }

  // The language that is read stands in front; all of them lie behind the pieces, and the mask behind them.
  void nllb() {
    const std::string eos = token("eos_token", "</s>");
    std::vector<Scored> tokens{
        {token("bos_token", "<s>"), 0}, {token("pad_token", "<pad>"), 0}, {eos, 0}, {token("unk_token", "<unk>"), 0}};
    for (const Scored& one : tokens) special(one.first);
    const auto is_first = [&](const Scored& piece) {
      return std::any_of(tokens.begin(), tokens.begin() + 4, [&](const Scored& t) { return t.first == piece.first; });
    };
    std::vector<Scored> others;
    std::remove_copy_if(pieces_.begin(), pieces_.end(), std::back_inserter(others), is_first);
    tokens.insert(tokens.end(), others.begin(), others.end());
    for (std::string& language : config_.tokens("additional_special_tokens")) {
      tokens.emplace_back(std::move(language), 0.0);
      special(tokens.back().first);
    }
    tokens.emplace_back(token("mask_token", "<mask>"), 0.0);
    special(tokens.back().first, /*lstrip=*/true);
    std::vector<NormalizerPtr> normalizers;
    normalizers.push_back(make_precompiled(model_.character_map, where_));
    normalizers.push_back(make_replace(Pattern(Regex(" {2,}", where_)), " "));
    parts_.normalizer = make_sequence(std::move(normalizers));
    parts_.pre_tokenizer = make_metaspace({});
    parts_.decoder = make_metaspace_decoder({});
    set_model(bpe(tokens, false));
    const TemplatePiece language = added(config_.text_or("src_lang", "eng_Latn")), end = added(eos);
    parts_.post_processor =
        make_template({language, {.sequence = 0}, end}, {language, {.sequence = 0}, {.sequence = 1}, end});
  }

  std::string where_;
  const TokenizerConfig& config_;
  SentencePieceModel model_;
  std::vector<Scored> pieces_;
  std::vector<AddedToken> added_;
  PipelineParts parts_;
};

}  // namespace

void set_llama_words(const TokenizerConfig& config, PipelineParts* parts) {
  const bool prefix = config.boolean_or("add_prefix_space", true);
  MetaspaceOptions o;
  o.prepend = !prefix                              ? PrependScheme::never
              : config.boolean_or("legacy", false) ? PrependScheme::always
                                                   : PrependScheme::first;
  o.split = false;
  parts->pre_tokenizer = make_metaspace(o);
  parts->decoder = fallback_decoder(/*strip=*/prefix);
}

std::vector<Merge> merges_of(const std::vector<std::string_view>& thirds, const TokenTable& table) {
  std::vector<Merge> merges;
  for (const std::string_view text : thirds) {
    for (size_t at = 0; at < text.size();) {
      at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (!right.empty() && table.find(left) != TokenTable::kNone && table.find(right) != TokenTable::kNone)
        merges.emplace_back(left, right);
    }
  }
  return merges;
}

std::shared_ptr<const Pipeline> read_sentencepiece(const TokenizerFiles& files, const std::string& name,
                                                   const TokenizerConfig& config) {
  return Reader(files.read(name), files.path(name), config).read();
}

}  // namespace heed::inline v0
