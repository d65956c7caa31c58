// Tokenizers in Hugging Face directories.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "tokenizer/json.h"
#include "tokenizer/pipeline.h"

namespace heed::inline v0 {

inline constexpr uint64_t kLargestTokenizer = uint64_t{256} << 20;  // limit in bytes

/// The default of a special token in a class of transformers; no content: none.
struct ClassToken {
  std::string_view key, content;
  bool lstrip = false, normalized = false;
};

/// The result of TokenizerConfig::special_tokens().
struct SpecialTokens {
  std::vector<AddedToken> added{};             // in the order in which transformers adds them
  std::map<std::string, std::string> named{};  // content by key ("bos_token")
  std::vector<std::string> all{};              // transformers' all_special_tokens

  /// The content of a named token; empty if the class has none.
  std::string content(const std::string& key) const {
    const auto found = named.find(key);
    return found == named.end() ? "" : found->second;
  }
};

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json, each if present, and the class that they and
/// config.json name. special_tokens_map.json takes precedence, unless tokenizer_config.json lists all added tokens. The
/// keys are in kConfigKeys.
class TokenizerConfig {
 public:
  explicit TokenizerConfig(const TokenizerFiles& files);

  /// The class that transformers' AutoTokenizer chooses, with aliases resolved ("RobertaTokenizer" for
  /// "BartTokenizerFast"). kFileClass for one that uses tokenizer.json unchanged. Empty if no file names one.
  const std::string& class_name() const { return class_; }
  static constexpr const char* kFileClass = "TokenizersBackend";

  bool boolean_or(std::string_view key, bool otherwise) const;
  std::optional<bool> boolean(std::string_view key) const;
  int64_t integer_or(std::string_view key, int64_t otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  /// The special tokens of a class, with `defaults` for those that the files do not name. `of_file`: the added tokens
  /// of tokenizer.json by id; `kept`: the class uses them. `additional` replaces mapped_additional(), which applies if
  /// tokenizer_config.json has neither extra_special_tokens nor additional_special_tokens.
  SpecialTokens special_tokens(std::span<const ClassToken> defaults, const std::map<int64_t, AddedToken>& of_file = {},
                               bool kept = false,
                               const std::optional<std::vector<AddedToken>>& additional = std::nullopt) const;

  /// Sets clean-up and TokenizerRules as in transformers' class. `bpe`: the model is BPE, whose texts are not cleaned
  /// up.
  void finish(PipelineParts* parts, bool bpe) const;

  /// The contents of added_tokens_decoder, or of added_tokens.json, by id.
  std::map<int64_t, std::string> listed_tokens() const;

  /// additional_special_tokens of special_tokens_map.json.
  std::optional<std::vector<AddedToken>> mapped_additional() const;

 private:
  std::optional<JsonValue> find(std::string_view key) const;
  void find_class(const TokenizerFiles& files);

  std::optional<JsonDocument> document_, map_document_, added_document_;
  std::optional<JsonValue> root_, map_, added_;
  std::string class_;
};

/// A key of tokenizer_config.json and how heed handles it.
struct ConfigKey {
  enum class Use : uint8_t { applied, harmless, refused_unless };
  std::string_view key;
  Use use;
  std::string_view why{};  // harmless: the reason; refused_unless: the value that is allowed
};

/// The table of keys that transformers' classes read, and the class that AutoTokenizer chooses for each model_type, as
/// JSON for tests: {"keys": [[key, use, why], ...], "classes": {class: [model_type, ...]}, "overruled": [model_type,
/// ...], "aliases": {class: class}}.
std::string describe_tokenizer_config();

/// vocab.json and merges.txt: byte-level BPE.
std::shared_ptr<const Pipeline> read_merges(const TokenizerFiles& files, const TokenizerConfig& config);

/// vocab.txt: BERT's WordPiece.
std::shared_ptr<const Pipeline> read_wordpieces(const TokenizerFiles& files, const TokenizerConfig& config);

/// The sentencepiece model `name`, for the classes that heed knows.
std::shared_ptr<const Pipeline> read_sentencepiece(const TokenizerFiles& files, const std::string& name,
                                                   const TokenizerConfig& config);

/// The tokenizer in a GGUF file.
std::shared_ptr<const Pipeline> read_gguf(const std::string& path);

/// vocab.json and sentencepiece.bpe.model.
std::shared_ptr<const Pipeline> read_m2m100(const TokenizerFiles& files, const TokenizerConfig& config);

/// Merges of two pieces of `table` that form a third one, in the order of `thirds`.
std::vector<Merge> merges_of(const std::vector<std::string_view>& thirds, const TokenTable& table);

/// source.spm, target.spm and vocab.json; for the target, target_vocab.json if the vocabularies are separate.
std::shared_ptr<const Pipeline> read_marian(const TokenizerFiles& files, const TokenizerConfig& config,
                                            TokenizerSide side);

}  // namespace heed::inline v0
