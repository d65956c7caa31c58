#include "tokenizer/load.h"

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

TokenizerConfig::TokenizerConfig(const TokenizerFiles& files) {
  constexpr const char* kName = "tokenizer_config.json";
  if (!files.contains(kName)) return;
  document_.emplace(files.read(kName), files.path(kName));
  root_ = document_->root();
  if (!root_->is_object()) root_->refuse("is no object");
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
  const auto value = root_ ? root_->find(key) : std::nullopt;
  if (!value) return std::nullopt;
  return value->boolean();
}

int64_t TokenizerConfig::integer_or(std::string_view key, int64_t otherwise) const {
  return root_ ? root_->integer_or(key, otherwise) : otherwise;
}

std::string TokenizerConfig::text_or(std::string_view key, std::string_view otherwise) const {
  return std::string(root_ ? root_->string_or(key, otherwise) : otherwise);
}

std::string TokenizerConfig::token_or(std::string_view key, std::string_view otherwise) const {
  const auto value = root_ ? root_->find(key) : std::nullopt;
  if (!value) return std::string(otherwise);
  return std::string(value->is_object() ? value->at("content").string() : value->string());
}

std::vector<std::string> TokenizerConfig::tokens(std::string_view key) const {
  std::vector<std::string> found;
  if (!root_) return found;
  if (const auto list = root_->find(key); list && list->is_array())
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
  if (root_) {
    if (const auto decoder = root_->find("added_tokens_decoder"))
      decoder->each_member([&](std::string_view, const JsonValue& value) { add(value, false); });
    for (const std::string_view name : kNames)
      if (const auto value = root_->find(name)) {
        // Where the class gives such a token, that is how it is found.
        AddedToken given{.content = token_or(name, ""), .special = true};
        for (const AddedToken& other : others)
          if (other.content == given.content) given = other;
        if (value->is_object()) {
          add(*value, true);
        } else {
          tokens.push_back(std::move(given));
        }
      }
    for (const std::string_view name : {"additional_special_tokens", "extra_special_tokens"})
      if (const auto list = root_->find(name); list && list->is_array())
        list->each([&](const JsonValue& value) { add(value, true); });
  }
  tokens.insert(tokens.end(), others.begin(), others.end());
  return tokens;
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
  if (files.contains("tokenizer.json"))
    return Tokenizer::from_json(files.read("tokenizer.json"), files.path("tokenizer.json"));
  const TokenizerConfig config(files);
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
                    "vocab.json with merges.txt or sentencepiece.bpe.model, vocab.txt, tokenizer.model, spiece.model or sentencepiece.bpe.model");
}

}  // namespace heed::inline v0
