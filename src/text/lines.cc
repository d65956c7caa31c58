// Reading text corpora.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <utility>

#include "heed/text.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

std::ifstream open_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw IoError("read " + path.string() + ": it is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError("read " + path.string() + ": " + std::strerror(errno));
  return in;
}

}  // namespace

bool LineStream::next(std::string& line) {
  if (!std::getline(in_, line)) {
    if (in_.bad()) throw IoError("read " + name_ + ": " + std::strerror(errno));
    if (!any_encoding_) check_.expect_utf8();
    return false;
  }
  ++number_;
  // A file that ends in "\r\n" and one that ends in "\r" give the same last line.
  if (line.ends_with('\r')) line.pop_back();
  const int64_t before = check_.replaced();
  line = check_.take(line);
  malformed_ = check_.replaced() > before;
  return true;
}

std::vector<std::string> read_lines(std::istream& in, const std::string& name, int64_t* replaced) {
  std::vector<std::string> lines;
  LineStream stream(in, name);
  for (std::string line; stream.next(line);) lines.push_back(std::move(line));
  if (replaced) *replaced += stream.replaced();
  return lines;
}

std::vector<std::string> read_lines(const std::filesystem::path& path, int64_t* replaced) {
  std::ifstream in = open_text(path);
  return read_lines(in, path.string(), replaced);
}

TextPairs read_pairs_tsv(const std::filesystem::path& path, int source_column, int target_column) {
  std::ifstream in = open_text(path);
  return read_pairs_tsv(in, path.string(), source_column, target_column);
}

void SkippedLines::add(int64_t SkippedLines::*kind, const std::string& name, int64_t line) {
  if (count() == 0) first = name + ": line " + std::to_string(line);
  ++(this->*kind);
}

std::string SkippedLines::in_words() const {
  std::string kinds;
  for (const auto& [number, kind] :
       {std::pair(empty, " empty"), {incomplete, " without all columns"}, {malformed, " not UTF-8"}})
    if (number > 0) kinds += (kinds.empty() ? "" : ", ") + std::to_string(number) + kind;
  return "left out " + std::to_string(count()) + (count() == 1 ? " bad line: " : " bad lines: ") + kinds +
         "; the first is " + first;
}

PairStream::PairStream(std::istream& in, const std::string& name, int source_column, int target_column,
                       SkippedLines* skipped)
    : lines_(in, name, /*any_encoding=*/skipped != nullptr),
      name_(name),
      source_column_(static_cast<size_t>(source_column)),
      target_column_(static_cast<size_t>(target_column)),
      skipped_(skipped) {
  if (source_column < 1 || target_column < 1)
    throw ShapeError("read pairs: columns are counted from 1, but " + std::to_string(source_column) + " and " +
                     std::to_string(target_column) + " were asked for");
}

bool PairStream::next(std::string& source, std::string& target) {
  std::string line;
  int64_t empty = 0;  // in front of the line; at the end of the file they are no lines of data
  while (lines_.next(line)) {
    const int64_t number = lines_.number();
    if (line.empty()) {
      ++empty;
      continue;
    }
    if (empty > 0 && !skipped_)
      throw BadLineError(name_ + ": line " + std::to_string(number - empty) + " is empty; each line is a pair");
    for (; empty > 0; --empty) skipped_->add(&SkippedLines::empty, name_, number - empty);
    const int64_t needed = static_cast<int64_t>(std::max(source_column_, target_column_)),
                  columns = columns_in(line, source, target);
    if (skipped_ && lines_.malformed()) {
      skipped_->add(&SkippedLines::malformed, name_, number);
    } else if (columns == needed) {
      return true;
    } else if (skipped_) {
      skipped_->add(&SkippedLines::incomplete, name_, number);
    } else {
      throw BadLineError(name_ + ": line " + std::to_string(number) + " has " + std::to_string(columns) +
                         (columns == 1 ? " column" : " columns") + " but column " + std::to_string(needed) +
                         " is needed; columns are separated by one tab");
    }
  }
  return false;
}

// Takes source and target out of a line. Returns how many columns there are, up to the last that is needed.
int64_t PairStream::columns_in(std::string_view line, std::string& source, std::string& target) const {
  const size_t needed = std::max(source_column_, target_column_);
  for (size_t column = 1;; ++column) {
    const size_t tab = line.find('\t');
    if (column == source_column_) source = line.substr(0, tab);
    if (column == target_column_) target = line.substr(0, tab);
    if (column == needed || tab == std::string_view::npos) return static_cast<int64_t>(column);
    line.remove_prefix(tab + 1);
  }
}

TextPairs read_pairs_tsv(std::istream& in, const std::string& name, int source_column, int target_column) {
  TextPairs pairs;
  PairStream stream(in, name, source_column, target_column);
  for (std::string source, target; stream.next(source, target);) {
    pairs.source.push_back(source);
    pairs.target.push_back(target);
  }
  pairs.replaced = stream.replaced();
  return pairs;
}

}  // namespace heed::inline v0
