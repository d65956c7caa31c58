#include "heed/corpus.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace heed::inline v0 {
namespace {

void say_replaced(const Say& say, int64_t count, const std::string& where) {
  if (count > 0 && say)
    say("replaced malformed UTF-8 by U+FFFD in " + std::to_string(count) + " places of the " + where);
}

std::string names_of(const std::vector<std::string>& files) {
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "" : ", ") + name_of_data(file);
  return names;
}

std::vector<std::string> read_data_lines(const std::string& file, int64_t* replaced = nullptr) {
  std::istringstream in(read_data(file));
  return read_lines(in, name_of_data(file), replaced);
}

void append(std::vector<std::string>& all, std::vector<std::string> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string read_text(const std::vector<std::string>& names, const char* what, const Say& say) {
  std::string text;
  int64_t replaced = 0;
  const std::vector<std::string> files = files_of(names);
  for (const std::string& file : files) {
    std::string bytes = read_data(file);
    if (bytes.starts_with("\xEF\xBB\xBF")) bytes.erase(0, 3);
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += sanitize_utf8(bytes, &replaced);
  }
  say_replaced(say, replaced, what);
  if (text.empty()) throw FormatError(names_of(files) + " is empty; give a text to learn from");
  return text;
}

// The lines of one side's file and the other's. Only the longer one may end in blank lines more.
void read_sides(const std::string& source, const std::string& target, TextPairs& texts) {
  std::vector<std::string> sources = read_data_lines(source, &texts.replaced),
                           targets = read_data_lines(target, &texts.replaced);
  const size_t source_lines = sources.size(), target_lines = targets.size();
  while (sources.size() > targets.size() && sources.back().empty()) sources.pop_back();
  while (targets.size() > sources.size() && targets.back().empty()) targets.pop_back();
  if (sources.size() != targets.size())
    throw FormatError(name_of_data(source) + " has " + std::to_string(source_lines) + " lines but " +
                      name_of_data(target) + " has " + std::to_string(target_lines) +
                      "; each line of one must belong to a line of the other");
  append(texts.source, std::move(sources));
  append(texts.target, std::move(targets));
}

// FNV-1a, then a mixing step (splitmix64's), for texts that differ in their last characters only.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

// Takes away the pairs whose sources are chosen and returns them, both in order.
template <class Chosen>
TextPairs take(TextPairs& texts, Chosen&& chosen) {
  TextPairs kept, taken;
  for (size_t i = 0; i < texts.source.size(); ++i) {
    TextPairs& to = chosen(texts.source[i]) ? taken : kept;
    to.source.push_back(std::move(texts.source[i]));
    to.target.push_back(std::move(texts.target[i]));
  }
  kept.replaced = texts.replaced;
  texts = std::move(kept);
  return taken;
}

}  // namespace

TextPairs read_pairs(const PairFiles& files, std::pair<int, int> columns, const Say& say, const std::string& what) {
  TextPairs texts;
  if (!files.pairs.empty() && (!files.source.empty() || !files.target.empty()))
    throw UsageError("read_pairs: files of pairs and files of one side are named; name either");
  if (files.source.empty() != files.target.empty())
    throw UsageError("read_pairs: files of one side are named; name those of the other, too");
  for (const std::string& file : files_of(files.pairs)) {
    std::istringstream in(read_data(file));
    TextPairs more = read_pairs_tsv(in, name_of_data(file), columns.first, columns.second);
    append(texts.source, std::move(more.source));
    append(texts.target, std::move(more.target));
    texts.replaced += more.replaced;
  }
  const std::vector<std::string> sources = files_of(files.source), targets = files_of(files.target);
  if (sources.size() != targets.size())
    throw UsageError("read_pairs: " + std::to_string(sources.size()) + " files of sources are named and " +
                     std::to_string(targets.size()) + " of targets; each file of sources needs its file of targets");
  for (size_t i = 0; i < sources.size(); ++i) read_sides(sources[i], targets[i], texts);
  say_replaced(say, texts.replaced, what);
  return texts;
}

void exclude_sources(TextPairs& texts, const std::vector<std::string>& names, const Say& say) {
  const std::vector<std::string> files = files_of(names);
  std::unordered_set<std::string> excluded;
  for (const std::string& file : files)
    for (std::string& line : read_data_lines(file)) excluded.insert(std::move(line));
  const TextPairs out = take(texts, [&](const std::string& source) { return excluded.contains(source); });
  if (say) say("left out " + std::to_string(out.source.size()) + " pairs whose source is in " + names_of(files));
}

TextPairs hold_out(TextPairs& texts, double fraction) {
  std::unordered_map<std::string_view, size_t> pairs_of;
  for (const std::string& source : texts.source) ++pairs_of[source];
  std::vector<std::pair<uint64_t, std::string_view>> order;
  for (const auto& [source, pairs] : pairs_of) order.emplace_back(hash_of(source), source);
  std::sort(order.begin(), order.end());
  const auto wanted = static_cast<size_t>(fraction * static_cast<double>(texts.source.size()) + 0.5);
  std::unordered_set<std::string> held_out;
  size_t count = 0;
  for (const auto& [hash, source] : order) {
    if (count >= wanted) break;
    held_out.emplace(source);
    count += pairs_of[source];
  }
  if (count == 0 || count == texts.source.size())
    throw UsageError("the part held out for validation has " + std::to_string(count) + " of " +
                     std::to_string(texts.source.size()) +
                     " pairs, which leaves none on one side; give more pairs, or another fraction");
  return take(texts, [&](const std::string& source) { return held_out.contains(source); });
}

SentencePairs encode(const Vocabulary& source, const Vocabulary& target, const TextPairs& texts, double dropout,
                     uint64_t seed) {
  if (dropout > 0)
    return {source.encode_with_dropout(texts.source, dropout, seed),
            target.encode_with_dropout(texts.target, dropout, seed + 1)};
  SentencePairs pairs;
  for (const std::string& line : texts.source) pairs.source.push_back(source.encode(line));
  for (const std::string& line : texts.target) pairs.target.push_back(target.encode(line));
  return pairs;
}

TextParts read_text_parts(const std::vector<std::string>& text, const std::vector<std::string>& validation,
                          double fraction, const Say& say) {
  TextParts parts{.training = read_text(text, "training text", say)};
  if (!validation.empty()) {
    parts.validation = read_text(validation, "validation text", say);
    return parts;
  }
  auto cut = static_cast<size_t>(static_cast<double>(parts.training.size()) * (1 - fraction));
  while (cut < parts.training.size() && (parts.training[cut] & 0xC0) == 0x80) --cut;  // within a character
  parts.validation = parts.training.substr(cut);
  parts.training.resize(cut);
  if (cut == 0)
    throw UsageError(names_of(files_of(text)) + " is too short to keep a part of it for validation; give more text");
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

std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
                                 const Say& say) {
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
  if (changed > 0 && say)
    say("the vocabulary cannot write " + std::to_string(changed) + " of " + std::to_string(lines) + " lines of the " +
        what + " as they are");
  return ids;
}

}  // namespace heed::inline v0
