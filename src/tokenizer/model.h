// Models: turn a word into tokens by BPE, WordPiece or Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token_table.h"

namespace heed::inline v0 {

/// A token, and the bytes of the word that it stands for.
struct WordToken {
  int32_t id;
  uint32_t begin, end;
};

class Model {
 public:
  explicit Model(TokenTable tokens) : tokens_(std::move(tokens)) {}
  virtual ~Model() = default;

  /// Appends the tokens of a word, which is not empty. `as_bytes`: see Words. Throws Error where a character has no
  /// token and there is none for what is unknown.
  virtual void tokenize(std::string_view word, bool as_bytes, std::vector<WordToken>* out) const = 0;
  virtual bool takes_bytes() const { return false; }
  virtual std::optional<int32_t> unknown() const { return std::nullopt; }

  const TokenTable& tokens() const { return tokens_; }

 protected:
  [[noreturn]] static void refuse_unknown(std::string_view what);

  TokenTable tokens_;
};
using ModelPtr = std::shared_ptr<const Model>;

using Merge = std::pair<std::string_view, std::string_view>;

/// Byte-pair encoding (Sennrich et al. 2016).
struct BpeOptions {
  std::string unk_token{};  // empty: characters without a token are left out
  std::string continuing_subword_prefix{};
  std::string end_of_word_suffix{};
  bool fuse_unk = false;       // unknown characters in a row are one token
  bool byte_fallback = false;  // unknown characters become tokens <0xHH>
  bool ignore_merges = false;  // a word that is a token becomes that token
};
/// The merges stand in the order of their ranks. Throws FormatError for one of an unknown token.
ModelPtr make_bpe(TokenTable tokens, std::span<const Merge> merges, BpeOptions options, const std::string& where);

/// The longest token first (Wu et al. 2016).
struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;
};
/// Throws FormatError where there is no unknown token.
ModelPtr make_wordpiece(TokenTable tokens, WordPieceOptions options, const std::string& where);

/// A token for each word; `unk_token` for those that have none.
ModelPtr make_word_level(TokenTable tokens, const std::string& unk_token);

/// The most probable tokens (Kudo 2018).
struct UnigramOptions {
  std::optional<int32_t> unk_id{};
  bool byte_fallback = false;
  bool single_precision = false;  // sums of scores are kept as sentencepiece keeps them
};
/// scores[id] is a log-probability. Throws FormatError for an unk_id that is no token.
ModelPtr make_unigram(TokenTable tokens, std::vector<double> scores, UnigramOptions options, const std::string& where);

/// "<0x0A>" for 10.
std::string byte_token(uint8_t byte);

}  // namespace heed::inline v0
