// Training data: sentence pairs and texts from files, patterns and standard input, and their tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heed/text.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// Takes messages about the data, for the user.
using Say = std::function<void(const std::string&)>;

// ---------------------------------------------------------------------------------------------- files

/// Expands names in order: each is a file, a pattern (glob(7); its files sorted by bytes), or "-" for standard input.
/// The name of an existing file is not a pattern. Throws IoError for a pattern without a match.
std::vector<std::string> files_of(const std::vector<std::string>& names);

/// A stream of the bytes of a file or of standard input, unpacked if compressed by gzip. The call and reading throw
/// IoError, and FormatError for a token file and for broken compressed data.
std::unique_ptr<std::istream> open_data(const std::string& file);

/// The name of a data file in messages.
std::string name_of_data(const std::string& file);

// ---------------------------------------------------------------------------------------------- sentence pairs

/// Either files of tab-separated columns, or files of sources and as many files of targets; each is a list for
/// files_of().
struct PairFiles {
  std::vector<std::string> pairs{}, source{}, target{};
  /// true: skip lines that are empty, lack a column or are not UTF-8. false: the first two are errors, and malformed
  /// UTF-8 is replaced.
  bool skip_bad_lines = false;
  bool empty() const { return pairs.empty() && source.empty() && target.empty(); }
};

/// Reads the pairs in the order of the files; `columns` are those of source and target, from 1. Blank lines at the end
/// of a file are ignored. One file of pairs is open at a time, with one line in memory. Throws UsageError if both kinds
/// of files are named, or sources without targets. next() throws IoError, BadLineError, and FormatError, also for a
/// text that is not UTF-8 (Utf8Check).
class PairReader {
 public:
  explicit PairReader(const PairFiles& files, std::pair<int, int> columns = {1, 2});
  ~PairReader();
  /// False at the end.
  bool next(std::string& source, std::string& target);
  /// Number of malformed UTF-8 sequences replaced so far.
  int64_t replaced() const { return replaced_; }
  /// Lines that were left out so far.
  const SkippedLines& skipped() const { return skipped_; }

 private:
  struct Open;
  bool open_next();
  bool next_of_sides(std::string& source, std::string& target);

  std::pair<int, int> columns_;
  std::vector<std::string> pairs_, sources_, targets_;
  size_t file_ = 0;
  std::unique_ptr<Open> open_;
  bool skips_;
  int64_t replaced_ = 0;
  SkippedLines skipped_;
};

/// Reads all pairs; none if no file is named. Reports replaced malformed UTF-8 and skipped lines to `say`; `what` names
/// the data. Throws as PairReader.
TextPairs read_pairs(const PairFiles& files, std::pair<int, int> columns = {1, 2}, const Say& say = {},
                     const std::string& what = "data");
/// The lines of files, for exclude_sources().
std::unordered_set<std::string> lines_in(const std::vector<std::string>& files);
/// A message: how many pairs were removed because their source is one of `lines` of the files, or why none was.
std::string left_out_in_words(int64_t count, const std::unordered_set<std::string>& lines,
                              const std::vector<std::string>& files);
/// Removes the pairs whose source is one of these lines, and reports their number.
void exclude_sources(TextPairs& texts, const std::vector<std::string>& files, const Say& say = {});
/// Removes about this fraction of the pairs and returns them, in order. All pairs of a source stay together. A hash of
/// the source decides, so the choice does not depend on the order and changes little when pairs are added. Throws
/// UsageError if either part would be empty, or if the removed part would be more than `most` because a source has many
/// pairs.
TextPairs hold_out(TextPairs& texts, double fraction, double most = 1);
/// Encodes the pairs; with `dropout` above 0, leaves out merges (Vocabulary::encode_with_dropout).
SentencePairs encode(const Vocabulary& source, const Vocabulary& target, const TextPairs& texts, double dropout = 0,
                     uint64_t seed = 0);

// ---------------------------------------------------------------------------------------------- texts

/// Reads the lines of text files in order, each with its newline; the last one may have none. Malformed UTF-8 is
/// replaced, or its lines are skipped. Byte order marks are dropped. A missing newline is added between files. Throws
/// IoError, and FormatError also for a text that is not UTF-8 (Utf8Check).
class TextReader {
 public:
  explicit TextReader(const std::vector<std::string>& files, bool skip_bad_lines = false);
  /// False at the end.
  bool next(std::string& line);
  /// Number of malformed UTF-8 sequences replaced so far.
  int64_t replaced() const { return replaced_; }
  /// Lines that were left out so far.
  const SkippedLines& skipped() const { return skipped_; }

 private:
  std::vector<std::string> files_;
  bool skips_;
  size_t file_ = 0;
  std::unique_ptr<std::istream> in_;
  std::optional<Utf8Check> check_;  // of the open file
  int64_t number_ = 0;              // of the last line read from it
  int64_t replaced_ = 0;
  SkippedLines skipped_;
};

struct TextParts {
  std::string training{}, validation{};
};
/// Reads all lines. Reports replaced malformed UTF-8 and skipped lines to `say`; `what` names the text. Throws as
/// TextReader, and FormatError for an empty text.
std::string read_text(const std::vector<std::string>& files, const std::string& what, const Say& say = {},
                      bool skip_bad_lines = false);
/// Training and validation text: validation is either from separate files or the last `fraction` of the text. Throws as
/// read_text().
TextParts read_text_parts(const std::vector<std::string>& text, const std::vector<std::string>& validation,
                          double fraction, const Say& say = {}, bool skip_bad_lines = false);
/// The lines of a text, each with its newline.
std::vector<std::string> lines_of(const std::string& text);
/// The pieces of a line of a text. Sets `changed` if the vocabulary cannot represent the line exactly.
std::vector<int32_t> encode_line(const Vocabulary& vocabulary, const std::string& line, bool* changed);
/// The pieces of a text. Reports how many lines the vocabulary changes, if any; `what` names the text.
std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
                                 const Say& say = {});

}  // namespace heed::inline v0
