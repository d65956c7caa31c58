// Data to train on: sentence pairs and texts from files, patterns and standard input, and their tokens.
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

/// Takes what a person may want to know of the data.
using Say = std::function<void(const std::string&)>;

// ---------------------------------------------------------------------------------------------- files

/// The files in the order of their names: each a file, a pattern (glob(7); its files in the order of their bytes), or
/// "-" for standard input. A file that exists is no pattern. Throws IoError for a pattern that fits no file.
std::vector<std::string> files_of(const std::vector<std::string>& names);

/// The bytes of a file or of standard input, unpacked where gzip compressed them, as they are read. Throws IoError, and
/// reading does, too; FormatError for a file of tokens, and for compressed data that is broken.
std::unique_ptr<std::istream> open_data(const std::string& file);

/// As messages call a file of data.
std::string name_of_data(const std::string& file);

// ---------------------------------------------------------------------------------------------- sentence pairs

/// Files of tab-separated columns, or files of sources with as many of targets, each a list for files_of().
struct PairFiles {
  std::vector<std::string> pairs{}, source{}, target{};
  /// Leave out lines that are empty, lack a column or are not UTF-8. Otherwise the first two are errors, and malformed
  /// UTF-8 is replaced.
  bool skip_bad_lines = false;
  bool empty() const { return pairs.empty() && source.empty() && target.empty(); }
};

/// The pairs one after the other, in the order of the files; `columns` are those of source and target, from 1. Blank
/// lines at the end of a file are no pairs. One file of pairs is open at a time, and a line of it in memory. Throws
/// UsageError where both kinds of files are named, or sources without targets; next() throws IoError, BadLineError,
/// and FormatError, also for a text that is not UTF-8 (Utf8Check).
class PairReader {
 public:
  explicit PairReader(const PairFiles& files, std::pair<int, int> columns = {1, 2});
  ~PairReader();
  /// False at the end.
  bool next(std::string& source, std::string& target);
  /// Malformed UTF-8 sequences in the files that are read, which were replaced.
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

/// All of them; none where no file is named. `say` hears of malformed UTF-8 that was replaced in the data called
/// `what`, and of lines that were left out. Throws as PairReader.
TextPairs read_pairs(const PairFiles& files, std::pair<int, int> columns = {1, 2}, const Say& say = {},
                     const std::string& what = "data");
/// The lines of files, as exclude_sources() takes them.
std::unordered_set<std::string> lines_in(const std::vector<std::string>& files);
/// Leaves out the pairs whose source is a line of the files, and says how many.
void exclude_sources(TextPairs& texts, const std::vector<std::string>& files, const Say& say = {});
/// Takes about this part of the pairs away and returns it, in order. All pairs of a source stay together, and a hash of
/// the source chooses: the same ones whatever the order, and with further pairs few others. Throws UsageError where
/// either part would be empty, and where the part taken would be more than `most`, since it has a source of many pairs.
TextPairs hold_out(TextPairs& texts, double fraction, double most = 1);
/// With merges left out where `dropout` is above 0 (Vocabulary::encode_with_dropout).
SentencePairs encode(const Vocabulary& source, const Vocabulary& target, const TextPairs& texts, double dropout = 0,
                     uint64_t seed = 0);

// ---------------------------------------------------------------------------------------------- texts

/// The lines of texts one file after the other, each with its newline; the last one may have none. Malformed UTF-8 is
/// replaced, or its lines are left out; byte order marks are dropped, and a file ends with a newline where another
/// follows. Throws IoError, FormatError, also for a text that is not UTF-8 (Utf8Check).
class TextReader {
 public:
  explicit TextReader(const std::vector<std::string>& files, bool skip_bad_lines = false);
  /// False at the end.
  bool next(std::string& line);
  /// Malformed UTF-8 sequences so far, which were replaced.
  int64_t replaced() const { return replaced_; }
  /// Lines that were left out so far.
  const SkippedLines& skipped() const { return skipped_; }

 private:
  std::vector<std::string> files_;
  bool skips_;
  size_t file_ = 0;
  std::unique_ptr<std::istream> in_;
  std::optional<Utf8Check> check_;  // of the file that is open
  int64_t number_ = 0;              // of its last line
  int64_t replaced_ = 0;
  SkippedLines skipped_;
};

struct TextParts {
  std::string training{}, validation{};
};
/// All of them; `say` hears of malformed UTF-8 that was replaced in the text called `what`, and of lines that were left
/// out. Throws as TextReader, and FormatError for an empty text.
std::string read_text(const std::vector<std::string>& files, const std::string& what, const Say& say = {},
                      bool skip_bad_lines = false);
/// The texts of files, and either others to validate on or `fraction` of their end. Throws as read_text().
TextParts read_text_parts(const std::vector<std::string>& text, const std::vector<std::string>& validation,
                          double fraction, const Say& say = {}, bool skip_bad_lines = false);
/// The lines of a text, each with its newline.
std::vector<std::string> lines_of(const std::string& text);
/// The pieces of a line of a text. Sets `changed` where the vocabulary cannot write it as it is.
std::vector<int32_t> encode_line(const Vocabulary& vocabulary, const std::string& line, bool* changed);
/// The pieces of a text. Says how many lines the vocabulary changes, if any; `what` names the text.
std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
                                 const Say& say = {});

}  // namespace heed::inline v0
