// Reading text corpora.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>

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

std::vector<std::string> read_lines(std::istream& in, const std::string& name, int64_t* replaced) {
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(in, line)) {
    if (lines.empty()) line = without_byte_order_mark(line);
    // A file that ends in "\r\n" and one that ends in "\r" give the same last line.
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(sanitize_utf8(line, replaced));
  }
  if (in.bad()) throw IoError("read " + name + ": " + std::strerror(errno));
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

TextPairs read_pairs_tsv(std::istream& in, const std::string& name, int source_column, int target_column) {
  if (source_column < 1 || target_column < 1) {
    throw ShapeError("read pairs: columns are counted from 1, but " + std::to_string(source_column) + " and " +
                     std::to_string(target_column) + " were asked for");
  }
  TextPairs pairs;
  std::vector<std::string> lines = read_lines(in, name, &pairs.replaced);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  pairs.source.reserve(lines.size());
  pairs.target.reserve(lines.size());
  std::vector<std::string_view> columns;
  for (size_t i = 0; i < lines.size(); ++i) {
    columns.clear();
    for (std::string_view rest = lines[i];;) {
      const size_t tab = rest.find('\t');
      columns.push_back(rest.substr(0, tab));
      if (tab == std::string_view::npos) break;
      rest.remove_prefix(tab + 1);
    }
    const auto needed = static_cast<size_t>(std::max(source_column, target_column));
    if (columns.size() < needed) {
      throw FormatError(name + ": line " + std::to_string(i + 1) + " has " + std::to_string(columns.size()) +
                        (columns.size() == 1 ? " column" : " columns") + " but column " + std::to_string(needed) +
                        " is needed; columns are separated by one tab");
    }
    pairs.source.emplace_back(columns[source_column - 1]);
    pairs.target.emplace_back(columns[target_column - 1]);
  }
  return pairs;
}

}  // namespace heed::inline v0
