// Tokenizers of third-party models and heed's own vocabularies, with the same calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {

/// A range of bytes of a text, without `end`.
struct ByteRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// The T tokens of a text or a pair of texts.
struct Encoding {
  std::vector<int32_t> ids;        ///< (T)
  std::vector<int32_t> type_ids;   ///< (T): the segment of a token, for models with segments
  std::vector<ByteRange> offsets;  ///< (T): the bytes of the text that a token stands for; {0, 0} for an added one
  std::vector<uint8_t> added;      ///< (T): 1 for a special token that is not in the text, such as [CLS]
};

/// A directory's rules for a model's input, which the callers of encode() apply.
struct TokenizerRules {
  bool cuts_left = false;  ///< true: a text that is too long is cut at its beginning, not at its end
  bool types = true;       ///< true: pass type_ids to the model; false: all tokens belong to the first segment
  int64_t appended = 0;    ///< so many of the last ids are of tokens that the directory names beside its vocabulary: a
                           ///< model that was not made for them has no rows for them
};

/// Turns text into ids and back. Copies share their data. Const functions may run in several threads at once.
///
/// Ids, type ids, offsets and decoded texts equal those of the `tokenizers` package (0.23) for the same tokenizer.json.
/// As in transformers, the blocks "truncation" and "padding" are ignored. Malformed UTF-8 counts as U+FFFD.
class Tokenizer {
 public:
  static constexpr uint64_t kLongestText = uint64_t{1} << 31;  ///< limit in bytes

  /// Reads the content of a tokenizer.json; `where` names it in messages. Throws FormatError, also for a part that heed
  /// does not support, which the message names.
  static Tokenizer from_json(std::string_view json, const std::string& where);

  /// Wraps one of heed's vocabularies. With special tokens, a text ends with the end token (vocabularies of characters
  /// have none). Offsets are those of the pieces; for a third-party sentencepiece model (see Vocabulary) each is the
  /// whole text.
  explicit Tokenizer(Vocabulary vocabulary);

  /// Encodes a text. `special_tokens` adds the model's tokens around it, such as [CLS] and [SEP]. Special tokens
  /// written in the text are recognised in either case. Throws ShapeError for a text of more than kLongestText bytes,
  /// and Error if a regular expression of the file needs more steps than PCRE2 permits.
  Encoding encode(std::string_view text, bool special_tokens = true) const;

  /// Encodes two texts as one row, such as a premise and a hypothesis. Each token's offsets refer to its own text.
  Encoding encode_pair(std::string_view first, std::string_view second, bool special_tokens = true) const;

  /// The text of a row of ids. `skip_special` leaves out special tokens. Ids without a token, which a model with more
  /// embedding rows than tokens may generate, are skipped.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// A token as stored, such as "Ġthe" or "##ing"; none for an id without a token.
  std::optional<std::string> token(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view token) const;

  /// A token in readable form: what it adds to a text, with a leading space if it begins a word. Special tokens, and
  /// tokens that are not text by themselves, are returned as stored. None for an id without a token.
  std::string written(int32_t id) const;

  /// The bytes that a token adds to a text, by itself: part of a character for a token of bytes; special tokens as
  /// stored. transformers finds stop strings in these. None for an id without a token. Throws FormatError if the
  /// tokenizer has no token for Latin letters.
  std::optional<std::string> own_text(int32_t id) const;

  /// The token that stands for characters without a token, if there is one.
  std::optional<int32_t> unknown() const;

  /// One more than the largest id.
  int64_t size() const;

  /// Whether skip_special leaves out the token.
  bool special(int32_t id) const;

  /// Whether the tokenizer's class has the token for a language, as M2M100Tokenizer has "__fr__". It may be no special
  /// token. Other classes have special tokens for languages, for which this is false.
  bool language(int32_t id) const;

  /// Whether the files or the tokenizer's class give the token a name such as "eos_token" or list it among the special
  /// ones: transformers' all_special_ids. A tokenizer.json may have more tokens for which special() is true.
  bool special_by_name(int32_t id) const;

  /// The content of a special token by its name, such as "mask_token", if the directory's files or the tokenizer's
  /// class have it. A tokenizer.json by itself and heed's own vocabularies have no names.
  std::optional<std::string> named(const std::string& name) const;

  TokenizerRules rules() const;

  /// A tokenizer that lowercases texts before its other normalizers, unless one of them is Lowercase: do_lower_case of
  /// sentence-transformers. Tokens that are found before normalization keep their case. Throws UsageError for one of
  /// heed's own vocabularies, which have no normalizers.
  Tokenizer lowercased() const;

  class Implementation;  // src/tokenizer/implementation.h
  explicit Tokenizer(std::shared_ptr<const Implementation> implementation)
      : implementation_(std::move(implementation)) {}

 private:
  std::shared_ptr<const Implementation> implementation_;
};

/// Decodes a row of ids token by token: the texts that push() and finish() return add up to decode()'s.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, bool skip_special = true);
  /// Starts over after a text of these tokens, which is not returned again.
  void follow(std::span<const int32_t> ids);
  /// Returns complete characters as soon as they are certain; empty while a character is incomplete. A run of tokens
  /// for single bytes, such as <0xC3>, is certain once another token follows, since one surplus byte turns all of them
  /// into U+FFFD.
  std::string push(int32_t id);
  /// Returns the rest at the end: U+FFFD for a character that was not completed.
  std::string finish();

 private:
  bool is_byte(int32_t id) const;
  std::string rest(bool last);
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // the ids that the next text depends on
  size_t told_ = 0;           // number of ids whose text is in told_text_
  std::string told_text_;
};

/// Source or target: a translation model may have a tokenizer for each.
enum class TokenizerSide : uint8_t { source, target };

/// Access to files by name, on disk or in memory.
struct TokenizerFiles {
  std::string where{};  // the directory, in messages
  std::function<bool(const std::string& name)> contains{};
  std::function<std::string(const std::string& name)> read{};

  std::string path(const std::string& name) const { return where + "/" + name; }
};

/// Loads the tokenizer of a model's directory. The first of these that exists is used:
///   1. heed's own vocabulary.txt;
///   2. for MarianTokenizer source.spm with target.spm and vocab.json, for M2M100Tokenizer vocab.json with
///      sentencepiece.bpe.model;
///   3. tokenizer.json;
///   4. vocab.json with merges.txt;
///   5. vocab.txt;
///   6. a sentencepiece model (tokenizer.model, spiece.model, sentencepiece.bpe.model), which heed reads by itself.
/// The class is the one that transformers' AutoTokenizer chooses from config.json and tokenizer_config.json. As in
/// transformers 5, many classes take the vocabulary and the added tokens of tokenizer.json and replace its other parts.
/// `path` may also be a GGUF file. Throws IoError. Throws FormatError if there is no tokenizer, or if a file breaks its
/// format or has a feature that heed does not support.
Tokenizer load_tokenizer(const std::string& path, TokenizerSide side = TokenizerSide::source);
/// Loads from `files`, and reads only those that it needs.
Tokenizer load_tokenizer(const TokenizerFiles& files, TokenizerSide side = TokenizerSide::source);

}  // namespace heed::inline v0
