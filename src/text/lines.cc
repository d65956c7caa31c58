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
    return false;
  }
  if (std::exchange(first_, false)) line = without_byte_order_mark(line);
  // A file that ends in "\r\n" and one that ends in "\r" give the same last line.
  if (line.ends_with('\r')) line.pop_back();
  line = sanitize_utf8(line, &replaced_);
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

PairStream::PairStream(std::istream& in, const std::string& name, int source_column, int target_column)
    : lines_(in, name),
      name_(name),
      source_column_(static_cast<size_t>(source_column)),
      target_column_(static_cast<size_t>(target_column)) {
  if (source_column < 1 || target_column < 1)
    throw ShapeError("read pairs: columns are counted from 1, but " + std::to_string(source_column) + " and " +
                     std::to_string(target_column) + " were asked for");
}

bool PairStream::next(std::string& source, std::string& target) {
  if (!held_)
    while ((held_ = lines_.next(line_)) && line_.empty()) ++blank_;
  if (!held_) return false;
  ++number_;
  if (blank_ > 0) {
    --blank_;
    take_columns("", source, target);
  } else {
    held_ = false;
    take_columns(line_, source, target);
  }
  return true;
}

void PairStream::take_columns(std::string_view line, std::string& source, std::string& target) const {
  const size_t needed = std::max(source_column_, target_column_);
  for (size_t column = 1;; ++column) {
    const size_t tab = line.find('\t');
    if (column == source_column_) source = line.substr(0, tab);
    if (column == target_column_) target = line.substr(0, tab);
    if (column == needed) return;
    if (tab == std::string_view::npos)
      throw FormatError(name_ + ": line " + std::to_string(number_) + " has " + std::to_string(column) +
                        (column == 1 ? " column" : " columns") + " but column " + std::to_string(needed) +
                        " is needed; columns are separated by one tab");
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
