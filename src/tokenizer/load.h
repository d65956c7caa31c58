// Directories as the hub has them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tokenizer/json.h"
#include "tokenizer/pipeline.h"

namespace heed::inline v0 {

inline constexpr uint64_t kLargestTokenizer = uint64_t{256} << 20;  // bytes of a file

/// tokenizer_config.json, where there is one: the class, and what the files leave open. special_tokens_map.json counts
/// before it, unless it lists all added tokens itself. Keys have a table in load.cc.
class TokenizerConfig {
 public:
  explicit TokenizerConfig(const TokenizerFiles& files);

  /// "LlamaTokenizer"; "Fast" at its end is left out. Empty where none is named.
  std::string class_name() const;
  /// Whether transformers makes a LlamaTokenizer, which it does for llama and not, for one, for mistral and phi3.
  bool is_llamas() const { return llamas_; }
  bool has(std::string_view key) const { return find(key).has_value(); }
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::optional<bool> boolean(std::string_view key) const;
  int64_t integer_or(std::string_view key, int64_t otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  /// A list of tokens, each a text or the member "content" of an object; empty where there is none.
  std::vector<std::string> tokens(std::string_view key) const;

  /// "bos_token" and the like: a text, or the member "content" of an object; `otherwise` where it is not given.
  std::string token_or(std::string_view key, std::string_view otherwise) const;
  /// The special tokens that it gives, those with ids first; then `others`, if they are not among them.
  std::vector<AddedToken> special_tokens(std::vector<AddedToken> others) const;

  /// Cleaning up and rules of rows, as transformers' class has them. `bpe`: texts of BPE are not cleaned up.
  void finish(PipelineParts* parts, bool bpe) const;

 private:
  std::optional<JsonValue> find(std::string_view key) const;

  std::optional<JsonDocument> document_, map_document_;
  std::optional<JsonValue> root_, map_;
  bool llamas_ = false;
};

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

/// Every two pieces of `table` that make up a third merge, in the order of the `thirds`.
std::vector<Merge> merges_of(const std::vector<std::string_view>& thirds, const TokenTable& table);

/// The words of LlamaTokenizer, and how its tokens become a text.
void set_llama_words(const TokenizerConfig& config, PipelineParts* parts);

/// What Qwen2Tokenizer takes for words.
PreTokenizerPtr make_qwen2_words(bool add_prefix_space);

/// source.spm, target.spm and vocab.json; for the target target_vocab.json where the vocabularies are separate.
std::shared_ptr<const Pipeline> read_marian(const TokenizerFiles& files, const TokenizerConfig& config,
                                            TokenizerSide side);

}  // namespace heed::inline v0
