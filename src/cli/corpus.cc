#include "cli/corpus.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "cli/commands.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

void say(const std::string& text) { warn("train", text); }

void say_replaced(int64_t count, const char* where) {
  if (count > 0) say("replaced malformed UTF-8 by U+FFFD in " + std::to_string(count) + " places of the " + where);
}

std::pair<int, int> parse_columns(const std::string& text) {
  int source = 0, target = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d,%d%c", &source, &target, &rest) != 2 || source < 1 || target < 1)
    throw ShapeError("--columns " + text + ": give the columns of source and target, counted from 1, as in 2,1");
  return {source, target};
}

std::string read_text(const std::string& path, const char* what) {
  std::string bytes = read_file(path);
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.erase(0, 3);
  int64_t replaced = 0;
  std::string text = sanitize_utf8(bytes, &replaced);
  say_replaced(replaced, what);
  if (text.empty()) throw FormatError(path + " is empty; give a text to learn from");
  return text;
}

}  // namespace

TextPairs read_pairs(const std::string& pairs, const std::string& columns, const std::string& source,
                     const std::string& target, const std::string& prefix) {
  const std::string dashes = "--" + prefix;
  TextPairs texts;
  if (!pairs.empty()) {
    if (!source.empty() || !target.empty())
      throw ShapeError("give either " + dashes + "pairs, or " + dashes + "source and " + dashes + "target");
    const auto [source_column, target_column] = parse_columns(columns);
    texts = read_pairs_tsv(pairs, source_column, target_column);
  } else if (!source.empty() || !target.empty()) {
    if (source.empty() || target.empty()) throw ShapeError("give both " + dashes + "source and " + dashes + "target");
    texts.source = read_lines(source, &texts.replaced);
    texts.target = read_lines(target, &texts.replaced);
    if (texts.source.size() != texts.target.size())
      throw FormatError(source + " has " + std::to_string(texts.source.size()) + " lines but " + target + " has " +
                        std::to_string(texts.target.size()) + "; each line of one must belong to a line of the other");
  }
  say_replaced(texts.replaced, prefix.empty() ? "training data" : "validation data");
  return texts;
}

void exclude_sources(TextPairs& texts, const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  const std::unordered_set<std::string> excluded(lines.begin(), lines.end());
  TextPairs kept;
  for (size_t i = 0; i < texts.source.size(); ++i) {
    if (excluded.contains(texts.source[i])) continue;
    kept.source.push_back(std::move(texts.source[i]));
    kept.target.push_back(std::move(texts.target[i]));
  }
  say("left out " + std::to_string(texts.source.size() - kept.source.size()) + " pairs whose source is in " + path);
  texts = std::move(kept);
}

SentencePairs encode(const Vocabulary& vocabulary, const TextPairs& texts, double dropout, uint64_t seed) {
  if (dropout > 0)
    return {vocabulary.encode_with_dropout(texts.source, dropout, seed),
            vocabulary.encode_with_dropout(texts.target, dropout, seed + 1)};
  SentencePairs pairs;
  for (const std::string& line : texts.source) pairs.source.push_back(vocabulary.encode(line));
  for (const std::string& line : texts.target) pairs.target.push_back(vocabulary.encode(line));
  return pairs;
}

TextParts read_text_parts(const std::string& text, const std::string& validation, double fraction) {
  TextParts parts{.training = read_text(text, "training text")};
  if (!validation.empty()) {
    parts.validation = read_text(validation, "validation text");
    return parts;
  }
  if (!(fraction >= 0 && fraction < 1))
    throw ShapeError("--valid-fraction is " + std::to_string(fraction) + "; it must be from 0 to less than 1");
  auto cut = static_cast<size_t>(static_cast<double>(parts.training.size()) * (1 - fraction));
  while (cut < parts.training.size() && (parts.training[cut] & 0xC0) == 0x80) --cut;  // within a character
  parts.validation = parts.training.substr(cut);
  parts.training.resize(cut);
  if (cut == 0) throw ShapeError(text + " is too short to keep a part of it for validation; give more text");
  return parts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what) {
  std::vector<int32_t> ids;
  int64_t changed = 0, lines = 0;
  for (const std::string& line : lines_of(text)) {
    const std::vector<int32_t> pieces = vocabulary.encode(line);
    std::string back;
    for (const int32_t id : pieces) back += vocabulary.bytes(id);
    changed += back != line;
    ++lines;
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }
  if (changed > 0)
    say("the vocabulary cannot write " + std::to_string(changed) + " of " + std::to_string(lines) + " lines of the " +
        what + " as they are");
  return ids;
}

}  // namespace heed::cli
