// Tokenizers of other people's models, and heed's own vocabularies behind the same calls.
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

/// Bytes of a text, `end` not included.
struct ByteRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// What a text, or a pair of texts, became: T tokens.
struct Encoding {
  std::vector<int32_t> ids;        ///< (T)
  std::vector<int32_t> type_ids;   ///< (T): which segment a token belongs to, for models that have segments
  std::vector<ByteRange> offsets;  ///< (T): the bytes of its text that a token stands for; {0, 0} of one that was added
  std::vector<uint8_t> added;      ///< (T): 1 for a special token that stands in no text, such as [CLS]
};

/// What a directory says of the rows that a model is given, which encode() leaves to its caller.
struct TokenizerRules {
  bool cuts_left = false;  ///< a text that is too long loses its beginning instead of its end
  bool types = true;       ///< the model is told which segment a token belongs to; else all are of the first
  int64_t appended = 0;    ///< so many of the last ids are of tokens that the directory names beside its vocabulary: a
                           ///< model that was not made for them has no rows for them
};

/// Turns text into ids and back. Copies share what they hold; all const functions may run in several threads at once.
///
/// Ids, type ids, offsets and decoded texts are those of the `tokenizers` package (0.23) for the same tokenizer.json,
/// without its blocks "truncation" and "padding": as transformers does, heed ignores what the program that saved the
/// file had set there. Malformed UTF-8 counts as U+FFFD.
class Tokenizer {
 public:
  static constexpr uint64_t kLongestText = uint64_t{1} << 31;  ///< bytes, which is more than any text given here has

  /// The content of a tokenizer.json; `where` stands for it in messages. Throws FormatError, which names a part that
  /// heed has not.
  static Tokenizer from_json(std::string_view json, const std::string& where);

  /// A vocabulary of heed's: with special tokens, a text ends with its end (which one of characters has not). Offsets
  /// are those of the pieces; for a sentencepiece model that heed did not make (see Vocabulary) each is the whole text.
  explicit Tokenizer(Vocabulary vocabulary);

  /// With `special_tokens`, those that the model wants around a text, such as [CLS] and [SEP], are added. Special
  /// tokens that are written in the text are found in either case. Throws ShapeError for a text of more than
  /// kLongestText bytes, and Error where a regular expression of the file needs more steps than PCRE2 permits.
  Encoding encode(std::string_view text, bool special_tokens = true) const;

  /// Two texts as one row, as models read a sentence and its premise. Each token's offsets are in its own text.
  Encoding encode_pair(std::string_view first, std::string_view second, bool special_tokens = true) const;

  /// The text of a row of ids; without special tokens where `skip_special` says so. Ids that name no token, which a
  /// model whose embedding has more rows than tokens may write, add nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// A token as it is stored, "Ġthe" or "##ing"; nothing where an id names none.
  std::optional<std::string> token(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view token) const;

  /// The same as a reader wants it: what it adds to a text behind others, with the space in front where a word begins.
  /// A special token, and one that is no text by itself, as it is stored; nothing where an id names none.
  std::string written(int32_t id) const;

  /// What stands for characters that it has no token for.
  std::optional<int32_t> unknown() const;

  /// One more than the largest id.
  int64_t size() const;

  /// Whether skip_special leaves it out.
  bool special(int32_t id) const;

  TokenizerRules rules() const;

  class Implementation;  // src/tokenizer/implementation.h
  explicit Tokenizer(std::shared_ptr<const Implementation> implementation)
      : implementation_(std::move(implementation)) {}

 private:
  std::shared_ptr<const Implementation> implementation_;
};

/// What a row of ids becomes, token by token: the texts that push() returns make up decode()'s.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, bool skip_special = true);
  /// Begins anew, behind a text of these tokens, which is not returned again.
  void follow(std::span<const int32_t> ids);
  /// Whole characters as soon as they are certain; empty while a character is not whole. A row of tokens that stand for
  /// single bytes, <0xC3>, is certain when another token follows: one byte too many makes U+FFFD of all of them.
  std::string push(int32_t id);
  /// What is left at the end: U+FFFD for a character that never became whole.
  std::string finish();

 private:
  bool is_byte(int32_t id) const;
  std::string rest(bool last);
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // those that the next text depends on
  size_t told_ = 0;           // of them, how many are in told_text_
  std::string told_text_;
};

/// A model that reads one language and writes another may have a tokenizer for each.
enum class TokenizerSide : uint8_t { source, target };

/// Files by their names, wherever they are.
struct TokenizerFiles {
  std::string where{};  // the directory, in messages
  std::function<bool(const std::string& name)> contains{};
  std::function<std::string(const std::string& name)> read{};

  std::string path(const std::string& name) const { return where + "/" + name; }
};

/// The tokenizer of a model's directory. The first of these files that is there decides:
///   1. heed's own vocabulary.txt;
///   2. for MarianTokenizer source.spm with target.spm and vocab.json, for M2M100Tokenizer vocab.json with
///      sentencepiece.bpe.model;
///   3. tokenizer.json;
///   4. vocab.json with merges.txt;
///   5. vocab.txt;
///   6. a sentencepiece model (tokenizer.model, spiece.model, sentencepiece.bpe.model), which heed reads by itself.
/// The class is the one that transformers' AutoTokenizer makes by config.json and tokenizer_config.json. Many classes
/// take the vocabulary and the added tokens of tokenizer.json and replace its other parts, as transformers 5 does.
/// `path` may also be a GGUF file. Throws IoError. Throws FormatError where there is no tokenizer, where a file breaks
/// its format, and where it asks for what heed does not support.
Tokenizer load_tokenizer(const std::string& path, TokenizerSide side = TokenizerSide::source);
/// The same of files of the directory: of those that are there it reads what it needs.
Tokenizer load_tokenizer(const TokenizerFiles& files, TokenizerSide side = TokenizerSide::source);

}  // namespace heed::inline v0
