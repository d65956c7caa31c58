// The keys of tokenizer_config.json, and the class that it and config.json name.
#include <algorithm>
#include <array>
#include <utility>

#include "heed/model_files.h"
#include "tokenizer/load.h"

namespace heed::inline v0 {
namespace {

// ------------------------------------------------------------------------------------------------------------- keys

using enum ConfigKey::Use;

constexpr const char* kPadding = "each call says how it cuts and pads, and no padding reaches the model";
constexpr const char* kFiles = "transformers takes the files of the directory";
constexpr const char* kRecord = "transformers writes it for itself";
constexpr const char* kChats = "it is for chats, whose template heed reads separately";
constexpr const char* kWhisper = "the caller chooses Whisper's prompt";
constexpr const char* kSegments = "the models of these classes have no segments";

// The keys that transformers' classes read in tokenizer_config.json. They ignore other keys, except names that end in
// "_token", which are special tokens. tests/models/tokenizer_configs.py compares the table with the classes.
constexpr std::array kConfigKeys{
    ConfigKey{"tokenizer_class", applied},
    ConfigKey{"bos_token", applied},
    ConfigKey{"eos_token", applied},
    ConfigKey{"unk_token", applied},
    ConfigKey{"sep_token", applied},
    ConfigKey{"pad_token", applied},
    ConfigKey{"cls_token", applied},
    ConfigKey{"mask_token", applied},
    ConfigKey{"prefix_token", applied},
    ConfigKey{"middle_token", applied},
    ConfigKey{"suffix_token", applied},
    ConfigKey{"eot_token", applied},
    ConfigKey{"fill_token", applied},
    ConfigKey{"additional_special_tokens", applied},
    ConfigKey{"extra_special_tokens", applied},
    ConfigKey{"model_specific_special_tokens", applied},
    ConfigKey{"added_tokens_decoder", applied},
    ConfigKey{"add_bos_token", applied},
    ConfigKey{"add_eos_token", applied},
    ConfigKey{"add_prefix_space", applied},
    ConfigKey{"legacy", applied},
    ConfigKey{"do_lower_case", applied},
    ConfigKey{"strip_accents", applied},
    ConfigKey{"tokenize_chinese_chars", applied},
    ConfigKey{"clean_up_tokenization_spaces", applied},
    ConfigKey{"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", applied},
    ConfigKey{"truncation_side", applied},
    ConfigKey{"model_input_names", applied},
    ConfigKey{"model_max_length", applied},
    ConfigKey{"extra_ids", applied},
    ConfigKey{"src_lang", applied},
    ConfigKey{"legacy_behaviour", applied},
    ConfigKey{"language_codes", applied},
    ConfigKey{"separate_vocabs", applied},
    ConfigKey{"chat_template", applied},
    ConfigKey{"split_special_tokens", refused_unless, "false"},
    ConfigKey{"fix_mistral_regex", refused_unless, "false"},
    ConfigKey{"sp_model_kwargs", refused_unless, "{}"},
    ConfigKey{"init_inputs", refused_unless, "[]"},
    ConfigKey{"fast_tokenizer_files", refused_unless, "[\"tokenizer.json\"]"},
    ConfigKey{"vocab", refused_unless, "null"},
    ConfigKey{"merges", refused_unless, "null"},
    ConfigKey{"unk_id", refused_unless, "null"},
    ConfigKey{"post_processor", refused_unless, "null"},
    ConfigKey{"tokenizer", refused_unless, "null"},
    ConfigKey{"tokenizer_object", refused_unless, "null"},
    ConfigKey{"gguf_file", refused_unless, "null"},
    ConfigKey{"_spm_precompiled_charsmap", refused_unless, "null"},
    ConfigKey{"vocab_file", harmless, kFiles},
    ConfigKey{"merges_file", harmless, kFiles},
    ConfigKey{"tokenizer_file", harmless, kFiles},
    ConfigKey{"spm_file", harmless, kFiles},
    ConfigKey{"source_spm", harmless, kFiles},
    ConfigKey{"target_spm", harmless, kFiles},
    ConfigKey{"target_vocab_file", harmless, kFiles},
    ConfigKey{"auto_map", harmless, "heed runs no code of a repository"},
    ConfigKey{"max_len", harmless, "no text is cut by it: transformers only warns of longer ones"},
    ConfigKey{"max_length", harmless, kPadding},
    ConfigKey{"stride", harmless, kPadding},
    ConfigKey{"truncation_strategy", harmless, kPadding},
    ConfigKey{"padding_side", harmless, kPadding},
    ConfigKey{"pad_token_type_id", harmless, kPadding},
    ConfigKey{"pad_to_multiple_of", harmless, kPadding},
    ConfigKey{"tokenizer_padding", harmless, kPadding},
    ConfigKey{"tokenizer_truncation", harmless, kPadding},
    ConfigKey{"_json_padding", harmless, kPadding},
    ConfigKey{"_json_truncation", harmless, kPadding},
    ConfigKey{"trim_offsets", applied},
    ConfigKey{"errors", harmless, "bytes that are not UTF-8 become U+FFFD"},
    ConfigKey{"tgt_lang", harmless, "the caller names the language to write"},
    ConfigKey{"source_lang", harmless, "it is for the punctuation of a package that transformers calls for no text"},
    ConfigKey{"target_lang", harmless, "it is for the punctuation of a package that transformers calls for no text"},
    ConfigKey{"num_madeup_words", harmless, "it only counts the vocabulary"},
    ConfigKey{"normalizer_file", harmless, "it is for scores of transcripts"},
    ConfigKey{"language", harmless, kWhisper},
    ConfigKey{"task", harmless, kWhisper},
    ConfigKey{"predict_timestamps", harmless, kWhisper},
    ConfigKey{"return_token_type_ids", harmless, kSegments},
    ConfigKey{"token_type_ids_pattern", harmless, kSegments},
    ConfigKey{"token_type_ids_include_special_tokens", harmless, kSegments},
    ConfigKey{"special_tokens_pattern", harmless, "it is for masks of special tokens, which heed takes from the row"},
    ConfigKey{"use_default_system_prompt", harmless, kChats},
    ConfigKey{"response_template", harmless, kChats},
    ConfigKey{"response_schema", harmless, kChats},
    ConfigKey{"chat_control_tokens", harmless, kChats},
    ConfigKey{"name_or_path", harmless, kRecord},
    ConfigKey{"processor_class", harmless, kRecord},
    ConfigKey{"backend", harmless, kRecord},
    ConfigKey{"files_loaded", harmless, kRecord},
    ConfigKey{"is_local", harmless, kRecord},
    ConfigKey{"local_files_only", harmless, kRecord},
    ConfigKey{"_commit_hash", harmless, kRecord},
    ConfigKey{"verbose", harmless, "it decides what is logged"},
};

bool is_only(const JsonValue& value, std::string_view text) {
  using Type = JsonValue::Type;
  if (text == "false") return value.type() != Type::boolean ? false : !value.boolean();
  if (text == "{}") return value.is_object() && value.count() == 0;
  if (text == "[]") return value.is_array() && value.count() == 0;
  if (text == "[\"tokenizer.json\"]") {
    bool only = value.is_array();
    if (only)
      value.each([&](const JsonValue& name) { only = only && name.is_string() && name.string() == "tokenizer.json"; });
    return only;
  }
  return false;  // "null", which find() leaves out
}

// ---------------------------------------------------------------------------------------------------------- classes

struct TypesOfClass {
  std::string_view name, types;  // with spaces between them
};

// The tokenizer class of a model_type in transformers' TOKENIZER_MAPPING_NAMES, for the classes that heed builds and
// for the models whose tokenizer.json is used unchanged.
constexpr std::array kTypes{
    TypesOfClass{"BertTokenizer",
                 "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino "
                 "layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm retribert squeezebert tvp "
                 "vilt visual_bert"},
    TypesOfClass{"CodeLlamaTokenizer", "code_llama"},
    TypesOfClass{"GPT2Tokenizer",
                 "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo "
                 "jais2 opt phi starcoder2"},
    TypesOfClass{"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    TypesOfClass{"GemmaTokenizer",
                 "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 "
                 "t5gemma zaya"},
    TypesOfClass{"LlamaTokenizer", "idefics idefics2"},
    TypesOfClass{"M2M100Tokenizer", "m2m_100"},
    TypesOfClass{"MPNetTokenizer", "mpnet"},
    TypesOfClass{"MarianTokenizer", "marian"},
    TypesOfClass{"NllbTokenizer", "nllb nllb-moe"},
    TypesOfClass{"Qwen2Tokenizer",
                 "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
                 "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe "
                 "qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    TypesOfClass{"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
    TypesOfClass{"RobertaTokenizer",
                 "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta roberta-prelayernorm"},
    TypesOfClass{"Siglip2Tokenizer", "siglip2"},
    TypesOfClass{"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5"},
    TypesOfClass{"XLMRobertaTokenizer", "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    TypesOfClass{TokenizerConfig::kFileClass,
                 "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
                 "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr "
                 "got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared "
                 "h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear "
                 "kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 "
                 "minimax_m2 ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert "
                 "modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid "
                 "opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts "
                 "smolvlm stablelm step3_vl umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl"},
};

// Models whose class overrides the one in tokenizer_config.json.
constexpr std::string_view kOverruled =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax "
    "hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 minicpmv "
    "minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v "
    "phimoe qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava";

// Models for which transformers has no class unless a file names one.
constexpr std::string_view kWithoutClass = "gpt_oss llama";

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kAliases{{
    {"BartTokenizer", "RobertaTokenizer"},
    {"BloomTokenizer", "TokenizersBackend"},
    {"ElectraTokenizer", "BertTokenizer"},
    {"LEDTokenizer", "RobertaTokenizer"},
    {"LayoutLMTokenizer", "BertTokenizer"},
    {"LongformerTokenizer", "RobertaTokenizer"},
    {"LxmertTokenizer", "BertTokenizer"},
    {"MobileBertTokenizer", "BertTokenizer"},
    {"MvpTokenizer", "RobertaTokenizer"},
    {"PreTrainedTokenizer", "TokenizersBackend"},
    {"PythonBackend", "TokenizersBackend"},
    {"SqueezeBertTokenizer", "BertTokenizer"},
}};

// Calls visit(word) for each word.
template <class Visit>
void each_word(std::string_view words, const Visit& visit) {
  while (!words.empty()) {
    const size_t length = std::min(words.find(' '), words.size());
    visit(words.substr(0, length));
    words.remove_prefix(std::min(length + 1, words.size()));
  }
}

bool has_word(std::string_view words, std::string_view wanted) {
  bool found = false;
  each_word(words, [&](std::string_view word) { found = found || word == wanted; });
  return found;
}

std::string class_of_type(std::string_view type) {
  for (const TypesOfClass& one : kTypes)
    if (has_word(one.types, type)) return std::string(one.name);
  return "";
}

std::string without_fast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return std::string(name);
}

std::string without_alias(const std::string& name) {
  for (const auto& [alias, of] : kAliases)
    if (alias == name) return std::string(of);
  return name;
}
}  // namespace

TokenizerConfig::TokenizerConfig(const TokenizerFiles& files) {
  const auto read = [&](const char* name, std::optional<JsonDocument>& document, std::optional<JsonValue>& root) {
    if (!files.contains(name)) return;
    document.emplace(files.read(name), files.path(name));
    root = document->root();
    if (!root->is_object()) root->refuse("is not an object");
  };
  read("tokenizer_config.json", document_, root_);
  if (!root_ || !root_->find("added_tokens_decoder")) {
    read("special_tokens_map.json", map_document_, map_);
    read("added_tokens.json", added_document_, added_);
  }
  find_class(files);
  const bool sentencepiece = class_ == "MarianTokenizer" || class_ == "M2M100Tokenizer";
  for (const ConfigKey& key : kConfigKeys) {
    if (key.use != refused_unless || (key.key == "sp_model_kwargs" && !sentencepiece)) continue;
    if (const auto given = find(key.key); given && !is_only(*given, key.why))
      given->refuse("has a value that heed does not support; it must be " + std::string(key.why));
  }
  const std::string side = text_or("truncation_side", "right");
  if (side != "right" && side != "left") find("truncation_side")->refuse("must be right or left");
}

// Chooses as AutoTokenizer.from_pretrained does.
void TokenizerConfig::find_class(const TokenizerFiles& files) {
  std::string type, given = root_ ? std::string(root_->string_or("tokenizer_class", "")) : "";
  if (files.contains(kConfigFile)) {
    const JsonDocument model(files.read(kConfigFile), files.path(kConfigFile));
    if (model.root().is_object()) {
      type = model.root().string_or("model_type", "");
      if (given.empty()) given = model.root().string_or("tokenizer_class", "");
    }
  }
  given = without_fast(given);
  const std::string registered = class_of_type(type);
  const bool overruled = has_word(kOverruled, type);
  const bool bytes = given == "LlamaTokenizer" && !overruled && files.contains("tokenizer.json") &&
                     files.read("tokenizer.json").find("\"ByteLevel\"") != std::string::npos;
  if (bytes || (!given.empty() && registered == kFileClass)) {
    class_ = kFileClass;
  } else if (given.empty() || (overruled && !registered.empty())) {
    class_ = registered;
    if (given.empty() && has_word(kWithoutClass, type)) class_ = kFileClass;
  } else {
    class_ = given;
  }
  class_ = without_alias(class_);
}

std::optional<JsonValue> TokenizerConfig::find(std::string_view key) const {
  auto value = given(key);
  return value && !value->is_null() ? value : std::nullopt;
}

bool TokenizerConfig::boolean_or(std::string_view key, bool otherwise) const {
  return boolean(key).value_or(otherwise);
}

std::optional<bool> TokenizerConfig::boolean(std::string_view key) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  return value->boolean();
}

int64_t TokenizerConfig::integer_or(std::string_view key, int64_t otherwise) const {
  const auto value = find(key);
  return value ? value->integer() : otherwise;
}

std::string TokenizerConfig::text_or(std::string_view key, std::string_view otherwise) const {
  const auto value = find(key);
  return std::string(value ? value->string() : otherwise);
}

void TokenizerConfig::finish(PipelineParts* parts, const SpecialTokens& special, bool bpe) const {
  parts->named = special.named;
  parts->special_ids.emplace();
  for (const std::string& token : special.all)
    if (const int32_t id = parts->lexicon->id_of(token); id != TokenTable::kNone) parts->special_ids->insert(id);
  const bool cleans = boolean_or("clean_up_tokenization_spaces", false);
  parts->cleans_up =
      cleans && (!bpe || boolean_or("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false));
  parts->rules.cuts_left = text_or("truncation_side", "right") == "left";
  // By default only BERT's class sets segments; a model without a class has its family's default.
  parts->rules.types = class_.empty() || class_ == "BertTokenizer";
  if (const auto inputs = find("model_input_names"); inputs && inputs->is_array()) {
    parts->rules.types = false;
    inputs->each(
        [&](const JsonValue& name) { parts->rules.types = parts->rules.types || name.string() == "token_type_ids"; });
  }
}

std::string describe_tokenizer_config() {
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + '"';
  };
  std::string out = "{\"keys\": [";
  for (const ConfigKey& key : kConfigKeys) {
    const char* use = key.use == applied ? "applied" : key.use == harmless ? "harmless" : "refused unless";
    out += (&key == kConfigKeys.data() ? "" : ", ") + ("[" + quoted(key.key)) + ", " + quoted(use) + ", " +
           quoted(key.why) + "]";
  }
  const auto list = [&](std::string_view words) {
    bool first = true;
    each_word(words, [&](std::string_view word) { out += (std::exchange(first, false) ? "" : ", ") + quoted(word); });
  };
  out += "], \"classes\": {";
  for (const TypesOfClass& one : kTypes) {
    out += (&one == kTypes.data() ? "" : ", ") + quoted(one.name) + ": [";
    list(one.types);
    out += ']';
  }
  out += "}, \"overruled\": [";
  list(kOverruled);
  out += "], \"aliases\": {";
  for (const auto& one : kAliases)
    out += (&one == kAliases.data() ? "" : ", ") + quoted(one.first) + ": " + quoted(one.second);
  return out + "}}";
}

}  // namespace heed::inline v0
