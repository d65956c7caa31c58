// Tokenizers in Hugging Face directories.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "text/model_proto_reader.h"
#include "tokenizer/json.h"
#include "tokenizer/pipeline.h"

namespace heed::inline v0 {

inline constexpr uint64_t kLargestTokenizer = uint64_t{256} << 20;  // limit in bytes

/// The default of a special token in a class of transformers; no content: none, also if tokenizer.json pads with one.
struct ClassToken {
  std::string_view key, content;
  bool object = false;  // the class makes an object of a text, with these attributes
  bool lstrip = false, normalized = false;
};

/// The tokens that a class has besides those of tokenizer_config.json and special_tokens_map.json.
struct TokenSources {
  std::span<const ClassToken> defaults{};   // for tokens that the files do not name
  std::map<int64_t, AddedToken> of_file{};  // the added tokens of tokenizer.json by id
  bool kept = false;                        // the class uses them as tokenizer.json has them
  std::string padding{};                    // the token that tokenizer.json pads with
  bool null_is_no_list = false;             // "extra_special_tokens": null counts as absent
  /// Replaces TokenizerConfig::additional() if the files have no extra_special_tokens.
  std::optional<std::vector<AddedToken>> additional{};
};

/// The result of TokenizerConfig::special_tokens().
struct SpecialTokens {
  std::vector<AddedToken> added{};             // in the order in which transformers adds them; a content may come again
  size_t listed = 0;                           // so many of the first ones are listed with their ids
  std::map<std::string, std::string> named{};  // content by key ("bos_token")
  std::vector<std::string> all{};              // transformers' all_special_tokens
  std::string replaced{};  // a name such as "bos_token" whose token one of the model's names replaces; empty if none is

  /// The content of a named token; empty if the class has none.
  std::string content(const std::string& key) const {
    const auto found = named.find(key);
    return found == named.end() ? "" : found->second;
  }
};

/// The result of TokenizerConfig::named_tokens(): transformers' special_tokens_map, which chat templates read.
struct NamedTokens {
  std::map<std::string, std::string> tokens{};  // content by name ("bos_token")
  bool complete = true;                         // false: the class may have more tokens by itself
  std::set<std::string> none{};                 // names that the files set to null
};

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json, each if present, and the class that they and
/// config.json name. special_tokens_map.json takes precedence, also with null, unless tokenizer_config.json lists all
/// added tokens. The keys are in kConfigKeys.
class TokenizerConfig {
 public:
  explicit TokenizerConfig(const TokenizerFiles& files);

  /// The class that transformers' AutoTokenizer chooses, with aliases resolved ("RobertaTokenizer" for
  /// "BartTokenizerFast"). kFileClass for one that uses tokenizer.json unchanged. Empty if no file names one.
  const std::string& class_name() const { return class_; }
  /// Whether nothing names a class or a token. A tokenizer.json then gives what the package tokenizers makes of it.
  bool is_bare() const { return class_.empty() && !root_ && !map_ && !added_; }
  static constexpr const char* kFileClass = "TokenizersBackend";

  bool boolean_or(std::string_view key, bool otherwise) const;
  std::optional<bool> boolean(std::string_view key) const;
  int64_t integer_or(std::string_view key, int64_t otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  /// Whether a file has the key, also with null.
  bool gives(std::string_view key) const { return given(key).has_value(); }
  /// The template for chats: a text, or several with names. None if there is none.
  std::optional<JsonValue> chat_template() const { return find("chat_template"); }
  bool chat_template_is_mapped() const;  // special_tokens_map.json has the key, which then precedes files of templates

  /// The special tokens of a class.
  SpecialTokens special_tokens(const TokenSources& sources) const;
  /// The names of special tokens in the tokenizer that load_tokenizer() makes of the same files.
  NamedTokens named_tokens(const TokenizerFiles& files) const;

  /// The list of tokens that a class gets as its argument additional_special_tokens.
  std::optional<std::vector<AddedToken>> additional() const;
  /// The token that a class gets as the argument for one of its tokens with a name of its own, such as "prefix_token".
  std::optional<AddedToken> argument(const ClassToken& token) const;

  /// Sets clean-up, TokenizerRules and special ids as in transformers' class. `special`: its tokens. `bpe`: the model
  /// is BPE, whose texts are not cleaned up.
  void finish(PipelineParts* parts, const SpecialTokens& special, bool bpe) const;

  /// The contents of added_tokens_decoder, or of added_tokens.json, by id.
  std::map<int64_t, std::string> listed_tokens() const;

 private:
  std::optional<JsonValue> given(std::string_view key) const;  // null, too
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

/// TokenizerConfig::named_tokens() of a directory, as JSON for tests: {"tokens": {name: content}, "complete": boolean,
/// "none": [name, ...]}.
std::string describe_named_tokens(const std::string& directory);

/// vocab.json and merges.txt: byte-level BPE.
std::shared_ptr<const Pipeline> read_merges(const TokenizerFiles& files, const TokenizerConfig& config);

/// vocab.txt: BERT's WordPiece.
std::shared_ptr<const Pipeline> read_wordpieces(const TokenizerFiles& files, const TokenizerConfig& config);

/// The sentencepiece model `name`, for the classes that heed knows.
std::shared_ptr<const Pipeline> read_sentencepiece(const TokenizerFiles& files, const std::string& name,
                                                   const TokenizerConfig& config);

/// The special tokens that a sentencepiece model names by itself. They refer to `model`.
std::vector<ClassToken> tokens_of_pieces(const SentencePieceModel& model);

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
