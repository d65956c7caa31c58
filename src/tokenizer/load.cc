#include "tokenizer/load.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/gguf.h"
#include "heed/model_files.h"
#include "text/read_whole_file.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error && error != std::errc::not_a_directory) throw IoError("read " + path.string() + ": " + error.message());
  return there;
}

using Shared = std::shared_ptr<const Tokenizer::Implementation>;

}  // namespace

// What transformers' classes read of tokenizer_config.json. Other keys mean nothing to them.
//
// applied: tokenizer_class; bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token and other keys
// of
//   this ending; additional_special_tokens, extra_special_tokens, added_tokens_decoder; clean_up_tokenization_spaces;
//   model_input_names; truncation_side; model_max_length, where sentences become vectors (SentenceModules);
//   do_lower_case, strip_accents, tokenize_chinese_chars; add_prefix_space; legacy; extra_ids; src_lang;
//   language_codes; separate_vocabs; add_bos_token, add_eos_token, which transformers drops beside a tokenizer.json;
//   chat_template (Chat)
// harmless: padding_side, pad_token_type_id and pad_to_multiple_of, since no padding reaches the model; trim_offsets,
// of
//   which ids do not depend; errors, since bytes that are no UTF-8 become U+FFFD; tgt_lang, the caller names it;
//   legacy_behaviour of NLLB, which its class only keeps; use_default_system_prompt, response_template and
//   chat_control_tokens, which are for chats; language, task and predict_timestamps of Whisper, whose prompt is the
//   caller's; normalizer_file, which is for scores; sp_model_kwargs and num_madeup_words, see below; what transformers
//   keeps for itself (name_or_path, processor_class, backend, files_loaded, verbose, init_inputs, is_local)
//
// refused unless they have the value that is given here:
struct OnlyFlag {
  std::string_view key;
  bool value;
};
constexpr OnlyFlag kOnly[] = {
    {"split_special_tokens", false},
    {"fix_mistral_regex", false},
    {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false},
};

TokenizerConfig::TokenizerConfig(const TokenizerFiles& files) {
  constexpr const char *kName = "tokenizer_config.json", *kMap = "special_tokens_map.json";
  const auto read = [&](const char* name, std::optional<JsonDocument>& document, std::optional<JsonValue>& root) {
    if (!files.contains(name)) return;
    document.emplace(files.read(name), files.path(name));
    root = document->root();
    if (!root->is_object()) root->refuse("is no object");
  };
  read(kName, document_, root_);
  if (!root_ || !root_->find("added_tokens_decoder")) read(kMap, map_document_, map_);
  for (const auto& [key, value] : kOnly)
    if (const auto given = find(key); given && given->boolean() != value)
      given->refuse(std::string("is ") + (value ? "false" : "true") + ", which heed has not; it must be " +
                    (value ? "true" : "false"));
  if (const auto options = find("sp_model_kwargs"); options && options->is_object() && options->count() > 0)
    options->refuse("has options of sentencepiece, which heed has not");
  if (class_name() == "LlamaTokenizer") {
    llamas_ = true;
    if (files.contains(kConfigFile)) {
      const JsonDocument model(files.read(kConfigFile), files.path(kConfigFile));
      llamas_ = model.root().string_or("model_type", "") == "llama";
    }
  }
  const std::string side = text_or("truncation_side", "right");
  if (side != "right" && side != "left") find("truncation_side")->refuse("is neither right nor left");
}

std::optional<JsonValue> TokenizerConfig::find(std::string_view key) const {
  if (map_)
    if (const auto value = map_->find(key)) return value;
  return root_ ? root_->find(key) : std::nullopt;
}

std::string TokenizerConfig::class_name() const {
  std::string name = text_or("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
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

std::string TokenizerConfig::token_or(std::string_view key, std::string_view otherwise) const {
  const auto value = find(key);
  if (!value) return std::string(otherwise);
  return std::string(value->is_object() ? value->at("content").string() : value->string());
}

std::vector<std::string> TokenizerConfig::tokens(std::string_view key) const {
  std::vector<std::string> found;
  if (const auto list = find(key); list && list->is_array())
    list->each([&](const JsonValue& value) {
      found.emplace_back(value.is_object() ? value.at("content").string() : value.string());
    });
  return found;
}

std::vector<AddedToken> TokenizerConfig::special_tokens(std::vector<AddedToken> others) const {
  std::vector<AddedToken> tokens;
  const auto add = [&](const JsonValue& value, bool special) {
    AddedToken& token = tokens.emplace_back();
    token.special = special;
    if (value.is_string()) {
      token.content = value.string();
      return;
    }
    token.content = value.at("content").string();
    token.single_word = value.boolean_or("single_word", false);
    token.lstrip = value.boolean_or("lstrip", false);
    token.rstrip = value.boolean_or("rstrip", false);
    token.normalized = value.boolean_or("normalized", false);
    token.special = value.boolean_or("special", special);
  };
  static constexpr std::array<std::string_view, 7> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                                          "pad_token", "cls_token", "mask_token"};
  if (const auto decoder = find("added_tokens_decoder"))
    decoder->each_member([&](std::string_view, const JsonValue& value) { add(value, false); });
  const auto add_named = [&](const JsonValue& value) {
    if (value.is_object()) return add(value, true);
    // Where the class gives such a token, that is how it is found.
    AddedToken given{.content = std::string(value.string()), .special = true};
    for (const AddedToken& other : others)
      if (other.content == given.content) given = other;
    tokens.push_back(std::move(given));
  };
  for (const std::string_view name : kNames)
    if (const auto value = find(name)) add_named(*value);
  // Of the model: "image_token" and the like.
  for (const auto& file : {map_, root_})
    if (file)
      file->each_member([&](std::string_view key, const JsonValue& value) {
        if (key.ends_with("_token") && value.is_string() &&
            std::find(kNames.begin(), kNames.end(), key) == kNames.end())
          add_named(value);
      });
  for (const std::string_view name : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto list = find(name);
    if (list && list->is_array()) list->each([&](const JsonValue& value) { add(value, true); });
    if (list && list->is_object())
      list->each_member([&](std::string_view, const JsonValue& value) { add(value, true); });
  }
  tokens.insert(tokens.end(), others.begin(), others.end());
  return tokens;
}

void TokenizerConfig::finish(PipelineParts* parts, bool bpe) const {
  parts->cleans_up = !bpe && boolean_or("clean_up_tokenization_spaces", false);
  parts->rules.cuts_left = text_or("truncation_side", "right") == "left";
  // BERT's class alone tells segments apart by itself; a model that names no class has its family's.
  const std::string name = class_name();
  const std::vector<std::string> inputs = tokens("model_input_names");
  parts->rules.types = inputs.empty() ? name.empty() || name == "BertTokenizer"
                                      : std::find(inputs.begin(), inputs.end(), "token_type_ids") != inputs.end();
}

Tokenizer load_tokenizer(const std::string& path, TokenizerSide side) {
  const std::filesystem::path directory(path);
  if (!std::filesystem::is_directory(directory)) {
    if (!is_there(directory)) throw IoError("read " + path + ": there is no such directory");
    if (is_gguf(path)) return Tokenizer(Shared(read_gguf(path)));
    throw FormatError(path + ": this is no directory and no GGUF file; pass the directory that tokenizer.json is in");
  }
  const TokenizerFiles files{
      .where = path,
      .contains = [&](const std::string& name) { return is_there(directory / name); },
      .read = [&](const std::string& name) { return read_whole_file(directory / name, kLargestTokenizer); }};
  return load_tokenizer(files, side);
}

Tokenizer load_tokenizer(const TokenizerFiles& files, TokenizerSide side) {
  const auto own = [&](const char* name) {
    return Tokenizer(Vocabulary::from_bytes(files.read(name), files.path(name)));
  };
  const bool source = side == TokenizerSide::source;
  if (source && files.contains(kSourceVocabularyFile)) return own(kSourceVocabularyFile);
  if (files.contains(kVocabularyFile)) return own(kVocabularyFile);
  const TokenizerConfig config(files);
  if (files.contains("tokenizer.json")) {
    const JsonDocument document(files.read("tokenizer.json"), files.path("tokenizer.json"));
    return Tokenizer(Shared(read_tokenizer_json(document.root(), files.path("tokenizer.json"), &config)));
  }
  if (files.contains("source.spm") && files.contains("target.spm"))
    return Tokenizer(Shared(read_marian(files, config, side)));
  if (files.contains("vocab.json") && files.contains("merges.txt"))
    return Tokenizer(Shared(read_merges(files, config)));
  if (files.contains("vocab.json") && files.contains("sentencepiece.bpe.model") &&
      (config.class_name() == "M2M100Tokenizer" || config.class_name().empty()))
    return Tokenizer(Shared(read_m2m100(files, config)));
  if (files.contains("vocab.txt")) return Tokenizer(Shared(read_wordpieces(files, config)));
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (files.contains(name)) return Tokenizer(Shared(read_sentencepiece(files, name, config)));
  throw FormatError(files.where +
                    ": no tokenizer that heed reads: tokenizer.json, source.spm with target.spm and vocab.json, "
                    "vocab.json with merges.txt or sentencepiece.bpe.model, vocab.txt, tokenizer.model, spiece.model "
                    "or sentencepiece.bpe.model");
}

}  // namespace heed::inline v0
