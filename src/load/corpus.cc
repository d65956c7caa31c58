#include "heed/corpus.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace heed::inline v0 {
namespace {

void say_replaced(const Say& say, int64_t count, const std::string& where) {
  if (count > 0 && say) say(replaced_in_words(count, where));
}

void say_skipped(const Say& say, const SkippedLines& skipped) {
  if (skipped.count() > 0 && say) say(skipped.in_words());
}

std::string names_of(const std::vector<std::string>& files) {
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "" : ", ") + name_of_data(file);
  return names;
}

// FNV-1a, then splitmix64's mixing step, for texts that differ only in their last characters.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

// Removes the pairs whose sources are chosen and returns them; both keep their order.
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

PairReader::PairReader(const PairFiles& files, std::pair<int, int> columns)
    : columns_(columns),
      sources_(files_of(files.source)),
      targets_(files_of(files.target)),
      skips_(files.skip_bad_lines) {
  if (!files.pairs.empty() && (!files.source.empty() || !files.target.empty()))
    throw UsageError("read_pairs: both files of pairs and files of one side are named; name one kind");
  if (files.source.empty() != files.target.empty())
    throw UsageError("read_pairs: only files of one side are named; name those of the other, too");
  if (sources_.size() != targets_.size())
    throw UsageError("read_pairs: " + std::to_string(sources_.size()) + " files of sources are named and " +
                     std::to_string(targets_.size()) + " of targets; each file of sources needs its file of targets");
  pairs_ = files_of(files.pairs);
}

struct PairReader::Open {
  std::unique_ptr<std::istream> in, targets_in;
  std::optional<PairStream> pairs;
  std::optional<LineStream> sources, targets;
  int64_t lines = 0;  // read from both sides

  int64_t replaced() const { return pairs ? pairs->replaced() : sources->replaced() + targets->replaced(); }
};

PairReader::~PairReader() = default;

bool PairReader::open_next() {
  auto open = std::make_unique<Open>();
  if (file_ < pairs_.size()) {
    open->in = open_data(pairs_[file_]);
    open->pairs.emplace(*open->in, name_of_data(pairs_[file_]), columns_.first, columns_.second,
                        skips_ ? &skipped_ : nullptr);
  } else if (file_ < sources_.size()) {
    open->in = open_data(sources_[file_]);
    open->targets_in = open_data(targets_[file_]);
    open->sources.emplace(*open->in, name_of_data(sources_[file_]), skips_);
    open->targets.emplace(*open->targets_in, name_of_data(targets_[file_]), skips_);
  } else {
    return false;
  }
  open_ = std::move(open);
  return true;
}

bool PairReader::next(std::string& source, std::string& target) {
  while (open_ || open_next()) {
    if (open_->pairs ? open_->pairs->next(source, target) : next_of_sides(source, target)) return true;
    if (!skips_) replaced_ += open_->replaced();
    open_.reset();
    ++file_;
  }
  return false;
}

// Only the longer side may have extra blank lines at its end.
bool PairReader::next_of_sides(std::string& source, std::string& target) {
  bool has_source = false, has_target = false;
  for (;;) {
    has_source = open_->sources->next(source), has_target = open_->targets->next(target);
    if (!has_source || !has_target) break;
    ++open_->lines;
    const bool malformed = skips_ && (open_->sources->malformed() || open_->targets->malformed());
    if (!malformed) return true;
    const std::string& file = open_->sources->malformed() ? sources_[file_] : targets_[file_];
    skipped_.add(&SkippedLines::malformed, name_of_data(file), open_->lines);
  }
  int64_t more = has_source || has_target;
  bool blank = (has_source ? source : target).empty();
  LineStream& longer = has_source ? *open_->sources : *open_->targets;
  for (std::string line; more > 0 && longer.next(line); ++more) blank &= line.empty();
  if (more == 0 || blank) return false;
  throw FormatError(name_of_data(sources_[file_]) + " has " + std::to_string(open_->lines + (has_source ? more : 0)) +
                    " lines but " + name_of_data(targets_[file_]) + " has " +
                    std::to_string(open_->lines + (has_target ? more : 0)) +
                    "; each line of one must belong to a line of the other");
}

TextReader::TextReader(const std::vector<std::string>& names, bool skip_bad_lines)
    : files_(files_of(names)), skips_(skip_bad_lines) {}

bool TextReader::next(std::string& line) {
  while (file_ < files_.size()) {
    if (!in_) {
      in_ = open_data(files_[file_]);
      check_.emplace(name_of_data(files_[file_]));
      number_ = 0;
    }
    if (!std::getline(*in_, line)) {
      if (!skips_) check_->expect_utf8();
      ++file_;
      in_.reset();
      continue;
    }
    ++number_;
    if (!in_->eof()) line += '\n';
    const int64_t before = check_->replaced();
    line = check_->take(line);
    const int64_t replaced = check_->replaced() - before;
    if (skips_ && replaced > 0) {
      skipped_.add(&SkippedLines::malformed, name_of_data(files_[file_]), number_);
      continue;
    }
    replaced_ += replaced;
    if (line.empty()) continue;  // a byte order mark only
    if (line.back() != '\n' && file_ + 1 < files_.size()) line += '\n';
    return true;
  }
  return false;
}

TextPairs read_pairs(const PairFiles& files, std::pair<int, int> columns, const Say& say, const std::string& what) {
  TextPairs texts;
  PairReader reader(files, columns);
  for (std::string source, target; reader.next(source, target);) {
    texts.source.push_back(source);
    texts.target.push_back(target);
  }
  texts.replaced = reader.replaced();
  say_replaced(say, texts.replaced, what);
  say_skipped(say, reader.skipped());
  return texts;
}

std::unordered_set<std::string> lines_in(const std::vector<std::string>& names) {
  std::unordered_set<std::string> lines;
  for (const std::string& file : files_of(names)) {
    const std::unique_ptr<std::istream> in = open_data(file);
    LineStream stream(*in, name_of_data(file));
    for (std::string line; stream.next(line);) lines.insert(std::move(line));
  }
  return lines;
}

std::string left_out_in_words(int64_t count, const std::unordered_set<std::string>& lines,
                              const std::vector<std::string>& files) {
  const std::string names = names_of(files_of(files));
  if (count > 0) return "left out " + std::to_string(count) + " pairs whose source is in " + names;
  const auto has_columns = [](const std::string& line) { return line.find('\t') != std::string::npos; };
  if (lines.empty()) return "left out no pairs: " + names + " has no lines";
  if (std::any_of(lines.begin(), lines.end(), has_columns))
    return "left out no pairs: no source is a line of " + names + ", whose lines have columns; give sources alone, " +
           "one a line, as cut -f 1 writes them";
  return "left out no pairs: no source is a line of " + names;
}

void exclude_sources(TextPairs& texts, const std::vector<std::string>& names, const Say& say) {
  const std::unordered_set<std::string> excluded = lines_in(names);
  const TextPairs out = take(texts, [&](const std::string& source) { return excluded.contains(source); });
  if (say) say(left_out_in_words(std::ssize(out.source), excluded, names));
}

TextPairs hold_out(TextPairs& texts, double fraction, double most) {
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
  const bool too_many = static_cast<double>(count) > most * static_cast<double>(texts.source.size());
  if (too_many)
    throw UsageError("the part held out for validation has " + std::to_string(count) + " of " +
                     std::to_string(texts.source.size()) + " pairs, since many have one source; give another fraction");
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

std::string read_text(const std::vector<std::string>& names, const std::string& what, const Say& say,
                      bool skip_bad_lines) {
  std::string text;
  TextReader reader(names, skip_bad_lines);
  for (std::string line; reader.next(line);) text += line;
  say_replaced(say, reader.replaced(), what);
  say_skipped(say, reader.skipped());
  if (text.empty()) throw FormatError(names_of(files_of(names)) + " is empty; give another " + what);
  return text;
}

TextParts read_text_parts(const std::vector<std::string>& text, const std::vector<std::string>& validation,
                          double fraction, const Say& say, bool skip_bad_lines) {
  TextParts parts{.training = read_text(text, "training text", say, skip_bad_lines)};
  if (!validation.empty()) {
    parts.validation = read_text(validation, "validation text", say, skip_bad_lines);
    return parts;
  }
  auto cut = static_cast<size_t>(static_cast<double>(parts.training.size()) * (1 - fraction));
  while (cut < parts.training.size() && (parts.training[cut] & 0xC0) == 0x80) --cut;  // not inside a character
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

std::vector<int32_t> encode_line(const Vocabulary& vocabulary, const std::string& line, bool* changed) {
  const std::vector<int32_t> pieces = vocabulary.encode(line);
  std::string back;
  for (const int32_t id : pieces) back += vocabulary.bytes(id);
  *changed = back != line;
  return pieces;
}

std::vector<int32_t> encode_text(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
                                 const Say& say) {
  std::vector<int32_t> ids;
  int64_t changed = 0, lines = 0;
  for (const std::string& line : lines_of(text)) {
    bool changes = false;
    const std::vector<int32_t> pieces = encode_line(vocabulary, line, &changes);
    changed += changes;
    ++lines;
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }
  if (changed > 0 && say)
    say("the vocabulary cannot write " + std::to_string(changed) + " of " + std::to_string(lines) + " lines of the " +
        what + " as they are");
  return ids;
}

}  // namespace heed::inline v0
