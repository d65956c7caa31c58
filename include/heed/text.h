// Text: reading it, subword vocabularies, and the metrics BLEU and chrF.
//
// Text is UTF-8 everywhere. Bytes that are not become U+FFFD, and the functions that read files count them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

/// Replaces each malformed sequence by U+FFFD (one per maximal subpart: the Unicode Standard, section 3.9, as Python's
/// errors="replace" does) and adds the number of replacements to *replaced when it is given.
std::string sanitize_utf8(std::string_view text, int64_t* replaced = nullptr);

/// The characters of a UTF-8 text; malformed sequences become U+FFFD.
std::u32string to_utf32(std::string_view text);

/// Appends a character by its code, at most U+10FFFF and no surrogate.
void append_utf8(char32_t code, std::string* out);

/// The text without a byte order mark (U+FEFF at the very beginning), which some editors write into files.
inline std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

/// The number of bytes, 0 to 3, of an incomplete character at the end of a text.
size_t incomplete_utf8(std::string_view text);

/// Repairs a text that should be UTF-8, part by part, and refuses a text in another encoding.
class Utf8Check {
 public:
  /// `name` stands for the text in messages: the path of its file, or "standard input".
  explicit Utf8Check(std::string name) : name_(std::move(name)) {}

  /// Takes the next line, or the whole text, as it was read. Returns it without a byte order mark at the start of the
  /// text, and with U+FFFD for each malformed sequence. Throws FormatError where the text is UTF-16 or UTF-32: it
  /// begins with the byte order mark of one of these, or every second byte of its first line is mostly 0.
  std::string take(std::string_view part);

  /// Throws FormatError if most non-ASCII characters so far were malformed, as in a Latin-1 text. Up to four malformed
  /// sequences are accepted, since any text may have some damaged bytes.
  void expect_utf8() const;

  /// Malformed sequences so far.
  int64_t replaced() const { return replaced_; }

 private:
  void expect_single_bytes(std::string_view part);  // the first part that is long enough decides

  std::string name_;
  bool begun_ = false, decided_ = false;
  bool binary_ = false;               // a part with malformed sequences has a byte 0, too
  bool windows_ = false;              // bytes that are controls in Latin-1 and punctuation in Windows-1252
  int64_t replaced_ = 0, valid_ = 0;  // sequences beyond ASCII
};

/// A warning for people: "replaced malformed UTF-8 by U+FFFD in 3 places of the training text; ...". `of` may be empty.
std::string replaced_in_words(int64_t replaced, const std::string& of = "");

/// A hint for a misspelt name: "; did you mean NAME?" for the closest known name, or empty if none is close.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& known);

/// A number for people: 29000 as "29,000".
std::string with_commas(int64_t count);

/// The word quoted for a shell: in single quotes if it has a character that is special in shells.
std::string shell_word(std::string_view word);

/// The lines of a file, without "\n" or "\r\n"; a last line needs neither. A byte order mark at the start is dropped,
/// malformed UTF-8 is replaced and counted into *replaced. Throws IoError, and FormatError as Utf8Check.
std::vector<std::string> read_lines(const std::filesystem::path& path, int64_t* replaced = nullptr);

/// Reads lines from a stream, such as standard input; `name` stands for it in messages.
std::vector<std::string> read_lines(std::istream& in, const std::string& name, int64_t* replaced = nullptr);

/// Reads lines one by one, with only one line in memory.
class LineStream {
 public:
  /// `any_encoding`: repair a text that is not UTF-8 instead of refusing it, for callers that skip malformed lines.
  LineStream(std::istream& in, const std::string& name, bool any_encoding = false)
      : in_(in), name_(name), check_(name), any_encoding_(any_encoding) {}
  /// False at the end. Throws IoError, and FormatError as Utf8Check.
  bool next(std::string& line);
  /// The number of the last line read, from 1, and whether it had malformed sequences.
  int64_t number() const { return number_; }
  bool malformed() const { return malformed_; }
  /// Malformed sequences so far.
  int64_t replaced() const { return check_.replaced(); }

 private:
  std::istream& in_;
  std::string name_;
  Utf8Check check_;
  bool any_encoding_, malformed_ = false;
  int64_t number_ = 0;
};

/// Whether a text is blank: only whitespace, controls and characters without width (U+200B, U+FEFF).
bool is_blank(std::string_view text);

/// The sentences of a paragraph, parts of `text` without the whitespace around and between them; none of a text of
/// whitespace. Rules, for the scripts and languages of Europe and those with full-width stops:
/// - . ! ? and similar marks end a sentence, with closing quotation marks and brackets after them, when whitespace and
///   a capital, a letter without case, a digit, ¿ or ¡ follow; 。！？ end one by themselves, but not before text that
///   continues after a quotation. No sentence ends within brackets.
/// - A dot does not end a sentence after an initial (J. Smith), an abbreviation used before names or numbers (Sr., No.
///   5), letters with dots (U.S.), a number that begins the text, or a German ordinal (1. Mai).
/// In doubtful cases two sentences stay together. A part always has a letter or a digit, unless the text has none.
std::vector<std::string_view> split_sentences(std::string_view text);

/// Two texts of equal length: source[i] belongs to target[i].
struct TextPairs {
  std::vector<std::string> source;
  std::vector<std::string> target;
  int64_t replaced = 0;  ///< malformed UTF-8 sequences replaced by U+FFFD
};

/// A line of data that is not a sentence pair: it is empty, or a column is missing.
class BadLineError : public FormatError {
 public:
  using FormatError::FormatError;
};

/// Counts of lines of data that were skipped.
struct SkippedLines {
  int64_t empty = 0;       ///< between other lines; empty lines at the end of a file are not counted
  int64_t incomplete = 0;  ///< a column is missing
  int64_t malformed = 0;   ///< not UTF-8
  std::string first{};     ///< "train.tsv: line 101"

  int64_t count() const { return empty + incomplete + malformed; }
  /// Adds one to `kind`, which is one of the counts above.
  void add(int64_t SkippedLines::*kind, const std::string& name, int64_t line);
  /// "left out 3 bad lines: 2 empty, 1 without all columns; the first is train.tsv: line 101"
  std::string in_words() const;
};

/// Two columns of a file of tab-separated values, counted from 1. Further columns are ignored, and so are empty lines
/// at the end; those between others are an error. Throws IoError, FormatError as Utf8Check, and BadLineError with the
/// line's number for an empty line and for one in which a column is missing.
TextPairs read_pairs_tsv(const std::filesystem::path& path, int source_column = 1, int target_column = 2);

/// Reads pairs from a stream; `name` stands for it in messages.
TextPairs read_pairs_tsv(std::istream& in, const std::string& name, int source_column = 1, int target_column = 2);

/// Reads pairs one by one.
class PairStream {
 public:
  /// With `skipped`, bad lines are skipped and counted there; it must outlive the stream. Throws ShapeError for a
  /// column below 1.
  PairStream(std::istream& in, const std::string& name, int source_column, int target_column,
             SkippedLines* skipped = nullptr);
  /// False at the end. Throws as read_pairs_tsv().
  bool next(std::string& source, std::string& target);
  int64_t replaced() const { return skipped_ ? 0 : lines_.replaced(); }

 private:
  int64_t columns_in(std::string_view line, std::string& source, std::string& target) const;

  LineStream lines_;
  std::string name_;
  size_t source_column_, target_column_;
  SkippedLines* skipped_;
};

/// A vocabulary that heed did not make, loaded without trust.
class UntrustedError : public FormatError {
 public:
  using FormatError::FormatError;
};

/// How a vocabulary treats the space U+0020. Every other character, tab and newline too, is always kept.
enum class Spaces {
  collapse,  ///< drop leading and trailing spaces, make runs one space: for sentences
  keep,      ///< keep each space: for code, verse, whole documents
  verbatim,  ///< change nothing: no normal form either, and no space before the first word. For language models: a text
             ///< cut behind a newline has the pieces of its parts
};

struct VocabularyOptions {
  int64_t size = 8000;                 ///< pieces in all: 4 special ones, 256 bytes, the characters, and merges
  bool fewer_will_do = false;          ///< accept fewer than `size` pieces if the text has no more; false: an error
  double character_coverage = 0.9995;  ///< share of the text's characters that get a piece; the rest become bytes
  static constexpr double kLeastCoverage = 0.98;  ///< the least coverage, as in sentencepiece; the greatest is 1
  Spaces spaces = Spaces::collapse;
};

/// Whether this thread is inside sentencepiece (a vocabulary is loaded, trained, or turns text into ids or back), where
/// an allocation that fails does not become std::bad_alloc: a destructor of protobuf's reads what was never written.
/// For a std::new_handler that would rather end the program itself.
bool inside_sentencepiece();

/// A subword vocabulary: byte-pair encoding (Sennrich et al. 2016) over characters, with bytes as the last resort, so
/// that no character is lost. Copies share their pieces; all const functions may run in several threads at once.
///
/// Ids of a vocabulary made by heed: 0 pad, 1 unk, 2 bos, 3 eos, 4..259 the bytes 0x00..0xFF, then the pieces.
///
/// decode(encode(s)) == normalize(s), which is s with malformed UTF-8 replaced, in Unicode normal form C (but not with
/// Spaces::verbatim), with spaces as `Spaces` says. Nothing else is lost: NUL, controls, emoji and U+2581 (which marks
/// spaces inside) return.
///
/// Or a vocabulary of characters, for language models (see characters()).
class Vocabulary {
 public:
  static constexpr int32_t pad = 0;
  static constexpr int32_t unk = 1;
  static constexpr int32_t bos = 2;
  static constexpr int32_t eos = 3;

  /// Learns the pieces from lines of text; pass both sides of a corpus for a joint vocabulary. The result depends on
  /// neither the number of threads nor the order of the lines. Throws ShapeError when the text is too small for
  /// options.size (the message says the largest possible size), or when options.size leaves no room for the characters.
  static Vocabulary train(std::span<const std::string> lines, const VocabularyOptions& options = {});

  /// A vocabulary of all characters of a text, sorted by code, after 0 unk, which replaces all others. Nothing is
  /// normalised, and there is no pad, bos or eos. Throws ShapeError for an empty text.
  static Vocabulary characters(std::string_view text);

  /// Reads the format of to_text. The pieces are checked strictly: FormatError names the line and the rule. A
  /// third-party model in it (see load_sentencepiece) needs trust.
  static Vocabulary from_text(std::string_view text, bool trust = false);

  /// A file of to_text's format, or a sentencepiece .model, which needs trust. Throws IoError where `path` is no
  /// regular file, FormatError for more than 64 MiB.
  static Vocabulary load(const std::filesystem::path& path, bool trust = false);

  /// Loads the content of such a file; `name` stands for it in messages.
  static Vocabulary from_bytes(std::string bytes, const std::string& name, bool trust = false);

  /// A sentencepiece .model that heed did not make. Such files reach sentencepiece's own parser, which malicious ones
  /// can corrupt (CVE-2026-1260), hence trust. Its own normalisation rules and ids apply, but heed insists on bos,
  /// eos and unk being present. Without a pad piece, pad_id() is unk_id().
  static Vocabulary load_sentencepiece(const std::filesystem::path& path, bool trust);

  /// heed's format: text, one piece per line; as src/text/vocabulary_format.h says. Deterministic, UTF-8 without NUL.
  /// write_file_atomically(path, vocabulary.to_text()) of heed/io.h saves it, complete or not at all.
  std::string to_text() const;

  int64_t size() const;
  /// -1 where there is no such piece.
  int32_t pad_id() const;
  int32_t unk_id() const;
  int32_t bos_id() const;
  int32_t eos_id() const;

  /// True for a model from load_sentencepiece.
  bool foreign() const;
  /// True for a vocabulary from characters().
  bool of_characters() const;

  /// Ids of the pieces of a text, without bos or eos. Empty for an empty text.
  std::vector<int32_t> encode(std::string_view text) const;

  /// The ids of each text with merges left out: a merge of two pieces is passed over with probability `dropout`, so
  /// that a model sees the same word in different pieces (BPE-dropout: Provilkov et al. 2020, 3.1). A function of the
  /// arguments alone. Throws ShapeError for a dropout outside [0, 1), and for characters() and foreign models above 0.
  std::vector<std::vector<int32_t>> encode_with_dropout(std::span<const std::string> texts, double dropout,
                                                        uint64_t seed) const;

  /// The pieces of a text as strings, with U+2581 for a space and <0xHH> for a byte.
  std::vector<std::string> encode_pieces(std::string_view text) const;

  /// The text of a row of ids. pad, bos and eos are skipped, unk and bytes that are not UTF-8 become U+FFFD.
  /// Throws ShapeError for an id outside [0, size()).
  std::string decode(std::span<const int32_t> ids) const;

  /// One piece as it is stored: "<s>", "<0x41>", "▁the", or a character. Throws ShapeError for an id outside
  /// [0, size()).
  const std::string& piece(int32_t id) const;

  /// The text that a piece stands for: its characters, one byte for a piece of a byte, nothing for pad, bos and eos,
  /// U+FFFD for unk. Text that begins with a piece that begins a word begins with a space. Throws ShapeError as
  /// piece().
  std::string bytes(int32_t id) const;

  /// The result of decode(encode(text)). For a third-party model, which has its own rules, only the text with malformed
  /// UTF-8 replaced.
  std::string normalize(std::string_view text) const;

 private:
  struct Model;
  static Vocabulary from_sentencepiece(std::string bytes, const std::string& name, bool trust);
  explicit Vocabulary(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

struct MetricOptions {
  bool lowercase = false;  ///< compare without regard to case (Unicode's full lower case, as Python's str.lower)
  int64_t resamples = 0;   ///< for a confidence interval by bootstrap (Koehn 2004); 0 for none, 1000 is usual
  uint64_t seed = 12345;   ///< of the resamples; sacreBLEU's
};

/// The confidence interval of a score from resampled corpora, as in sacreBLEU's --confidence: 95 % of the scores lie in
/// an interval of width 2 * half_width.
struct Confidence {
  double mean = 0;
  double half_width = 0;
  int64_t resamples = 0;  ///< 0: no interval was asked for
  uint64_t seed = 0;
};

/// BLEU of a corpus (Papineni et al. 2002) exactly as sacreBLEU defines it by default (Post 2018): 13a tokens, n-grams
/// of up to 4, exponential smoothing. Of several references an n-gram counts where it occurs most often, and the length
/// is that of the closest, of two equally close ones the shorter.
struct BleuScore {
  double score = 0;                    ///< 0 to 100
  std::array<double, 4> precisions{};  ///< of 1- to 4-grams, 0 to 100, smoothed
  std::array<int64_t, 4> correct{};
  std::array<int64_t, 4> total{};
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0;  ///< in tokens
  int64_t reference_length = 0;   ///< in tokens
  bool lowercase = false;
  int64_t references = 1;  ///< translations a line was compared with
  Confidence confidence;

  double ratio() const;  ///< hypothesis_length / reference_length; 0 without a reference
  /// BLEU = 41.02 71.0/47.5/34.3/24.5 (BP = 0.999 ratio = 0.999 hyp_len = 9 ref_len = 9); behind the score
  /// (μ = 41.03 ± 0.58) where there are resamples.
  std::string format() const;
  std::string signature() const;  ///< nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.2.0
};

/// hypotheses[i] is scored against references[i]. Throws ShapeError when their counts differ or are 0.
BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options = {});
/// Scores against several references, references[r][i] for each r.
BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
               const MetricOptions& options = {});

/// chrF2 of a corpus (Popović 2015) exactly as sacreBLEU defines it by default: n-grams of up to 6 characters without
/// whitespace, recall weighs twice as much as precision. Of several references the one that gives a line the best score
/// counts, the first of equal ones.
struct ChrfScore {
  double score = 0;  ///< 0 to 100
  bool lowercase = false;
  int64_t references = 1;
  Confidence confidence;

  std::string format() const;     ///< chrF2 = 62.30, with (μ = 62.31 ± 0.52) where there are resamples
  std::string signature() const;  ///< nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-0.2.0
};

/// As bleu. Malformed UTF-8 counts as U+FFFD.
ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options = {});
ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
               const MetricOptions& options = {});

}  // namespace heed::inline v0
