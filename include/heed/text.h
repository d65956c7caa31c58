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
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

/// Replaces each malformed sequence by U+FFFD (one per maximal subpart: the Unicode Standard, section 3.9, as Python's
/// errors="replace" does) and adds the number of replacements to *replaced when it is given.
std::string sanitize_utf8(std::string_view text, std::int64_t* replaced = nullptr);

/// How many bytes at the end of a text begin a character that is not whole yet: 0 to 3.
std::size_t incomplete_utf8(std::string_view text);

/// The lines of a file, without "\n" or "\r\n"; a last line needs neither. A byte order mark at the start is dropped,
/// malformed UTF-8 is replaced and counted into *replaced. Throws IoError.
std::vector<std::string> read_lines(const std::filesystem::path& path, std::int64_t* replaced = nullptr);

/// The same from a stream, such as standard input; `name` stands for it in messages.
std::vector<std::string> read_lines(std::istream& in, const std::string& name, std::int64_t* replaced = nullptr);

/// Two texts of equal length: source[i] belongs to target[i].
struct TextPairs {
  std::vector<std::string> source;
  std::vector<std::string> target;
  std::int64_t replaced = 0;  ///< malformed UTF-8 sequences replaced by U+FFFD
};

/// Two columns of a file of tab-separated values, counted from 1. Further columns are ignored; empty lines are an
/// error. Throws IoError, and FormatError with the line's number and its count of columns where a column is missing.
TextPairs read_pairs_tsv(const std::filesystem::path& path, int source_column = 1, int target_column = 2);

/// How a vocabulary treats the space U+0020. Every other character, tab and newline too, is always kept.
enum class Spaces {
  collapse,  ///< drop leading and trailing spaces, make runs one space: for sentences
  keep,      ///< keep each space: for code, verse, whole documents
  verbatim,  ///< change nothing: no normal form either, and no space before the first word. For language models: a text
             ///< cut behind a newline has the pieces of its parts
};

struct VocabularyOptions {
  std::int64_t size = 8000;            ///< pieces in all: 4 special ones, 256 bytes, the characters, and merges
  double character_coverage = 0.9995;  ///< share of the text's characters that get a piece; the rest become bytes
  Spaces spaces = Spaces::collapse;
};

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
  static constexpr std::int32_t pad = 0;
  static constexpr std::int32_t unk = 1;
  static constexpr std::int32_t bos = 2;
  static constexpr std::int32_t eos = 3;

  /// Learns the pieces from lines of text; pass both sides of a corpus for a joint vocabulary. The result depends on
  /// neither the number of threads nor the order of the lines. Throws ShapeError when the text is too small for
  /// options.size (the message says the largest possible size), or when options.size leaves no room for the characters.
  static Vocabulary train(std::span<const std::string> lines, const VocabularyOptions& options = {});

  /// Every character of a text, in the order of their codes, behind 0 unk, which stands for all others: they are lost.
  /// Nothing is normalised, and there is no pad, bos or eos. Throws ShapeError for an empty text.
  static Vocabulary characters(std::string_view text);

  /// Reads what to_text wrote. The pieces are checked strictly: FormatError names the line and the rule. A foreign
  /// model within (see load_sentencepiece) needs trust.
  static Vocabulary from_text(std::string_view text, bool trust = false);

  /// A file of to_text's format, or a sentencepiece .model, which needs trust.
  static Vocabulary load(const std::filesystem::path& path, bool trust = false);

  /// A sentencepiece .model that heed did not make. Such files reach sentencepiece's own parser, which malicious ones
  /// can corrupt (CVE-2026-1260), hence trust. Its own normalisation rules and ids apply, but heed insists on bos,
  /// eos and unk being present. Without a pad piece, pad_id() is eos_id().
  static Vocabulary load_sentencepiece(const std::filesystem::path& path, bool trust);

  /// heed's format: text, one piece per line; as src/text/vocabulary_format.h says. Deterministic, UTF-8 without NUL.
  std::string to_text() const;

  /// Writes to_text() to a file, complete or not at all. Throws IoError.
  void save(const std::filesystem::path& path) const;

  std::int64_t size() const;
  /// -1 where there is no such piece.
  std::int32_t pad_id() const;
  std::int32_t unk_id() const;
  std::int32_t bos_id() const;
  std::int32_t eos_id() const;

  /// True for a model from load_sentencepiece.
  bool foreign() const;
  /// True for a vocabulary from characters().
  bool of_characters() const;

  /// Ids of the pieces of a text, without bos or eos. Empty for an empty text.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// The ids of each text with merges left out: a merge of two pieces is passed over with probability `dropout`, so
  /// that a model sees the same word in different pieces (BPE-dropout: Provilkov et al. 2020, 3.1). A function of the
  /// arguments alone. Throws ShapeError for a dropout outside [0, 1), and for characters() and foreign models above 0.
  std::vector<std::vector<std::int32_t>> encode_with_dropout(std::span<const std::string> texts, double dropout,
                                                             std::uint64_t seed) const;

  /// The same as pieces, with U+2581 for a space and <0xHH> for a byte.
  std::vector<std::string> encode_pieces(std::string_view text) const;

  /// The text of a row of ids. pad, bos and eos are skipped, unk and bytes that are not UTF-8 become U+FFFD.
  /// Throws ShapeError for an id outside [0, size()).
  std::string decode(std::span<const std::int32_t> ids) const;

  /// One piece as it is stored: "<s>", "<0x41>", "▁the", or a character. Throws ShapeError for an id outside
  /// [0, size()).
  const std::string& piece(std::int32_t id) const;

  /// What a piece adds to a text: its characters, one byte for a piece of a byte, nothing for pad, bos and eos, U+FFFD
  /// for unk. Text that begins with a piece that begins a word begins with a space. Throws ShapeError as piece().
  std::string bytes(std::int32_t id) const;

  /// What decode(encode(text)) gives back. For a foreign model this is only its own rules' business: the text with
  /// malformed UTF-8 replaced.
  std::string normalize(std::string_view text) const;

 private:
  struct Model;
  explicit Vocabulary(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

struct MetricOptions {
  bool lowercase = false;  ///< compare without regard to case (Unicode's full lower case, as Python's str.lower)
};

/// BLEU of a corpus (Papineni et al. 2002) exactly as sacreBLEU defines it by default (Post 2018): 13a tokens, n-grams
/// of up to 4, exponential smoothing, one reference.
struct BleuScore {
  double score = 0;                    ///< 0 to 100
  std::array<double, 4> precisions{};  ///< of 1- to 4-grams, 0 to 100, smoothed
  std::array<std::int64_t, 4> correct{};
  std::array<std::int64_t, 4> total{};
  double brevity_penalty = 1;
  std::int64_t hypothesis_length = 0;  ///< in tokens
  std::int64_t reference_length = 0;   ///< in tokens
  bool lowercase = false;

  double ratio() const;        ///< hypothesis_length / reference_length; 0 without a reference
  std::string format() const;  ///< BLEU = 41.02 71.0/47.5/34.3/24.5 (BP = 0.999 ratio = 0.999 hyp_len = 9 ref_len = 9)
  std::string signature() const;  ///< nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.1.0
};

/// hypotheses[i] is scored against references[i]. Throws ShapeError when their counts differ or are 0.
BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options = {});

/// chrF2 of a corpus (Popović 2015) exactly as sacreBLEU defines it by default: n-grams of up to 6 characters without
/// whitespace, recall weighs twice as much as precision.
struct ChrfScore {
  double score = 0;  ///< 0 to 100
  bool lowercase = false;

  std::string format() const;     ///< chrF2 = 62.30
  std::string signature() const;  ///< nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-0.1.0
};

/// As bleu. Malformed UTF-8 counts as U+FFFD.
ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options = {});

}  // namespace heed::inline v0
