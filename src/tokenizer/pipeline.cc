#include "tokenizer/pipeline.h"

#include <algorithm>

#include "tokenizer/growth.h"

namespace heed::inline v0 {
namespace {

void add_token(int32_t id, int32_t type_id, ByteRange range, Encoding* out) {
  out->ids.push_back(id);
  out->type_ids.push_back(type_id);
  out->offsets.push_back(range);
  out->added.push_back(0);
}

template <class T>
void keep(std::vector<T>* values, size_t begin, size_t end) {
  values->erase(values->begin() + static_cast<int64_t>(end), values->end());
  values->erase(values->begin(), values->begin() + static_cast<int64_t>(begin));
}

void cut(Encoding* row, size_t length, bool left) {
  const size_t n = row->ids.size();
  if (n <= length) return;
  const size_t begin = left ? n - length : 0, end = begin + length;
  keep(&row->ids, begin, end);
  keep(&row->type_ids, begin, end);
  keep(&row->offsets, begin, end);
  keep(&row->added, begin, end);
}

}  // namespace

std::string_view Lexicon::text(int32_t id) const {
  if (const std::string_view token = added.text(id); token.data()) return token;
  return model->tokens().text(id);
}

TokenText model_text(std::shared_ptr<const Lexicon> lexicon) {
  return [lexicon = std::move(lexicon)](int32_t id) {
    return lexicon->added.text(id).data() ? std::string_view() : lexicon->model->tokens().text(id);
  };
}

Encoding Pipeline::encode(std::span<const GivenText> texts, bool special_tokens) const {
  std::unique_ptr<WordCache> cache = take_cache();
  std::vector<Row> rows;
  for (const GivenText& text : texts)
    rows.push_back({encode_text(text.text, static_cast<int32_t>(rows.size()), cache.get()), text.given});
  give_back(std::move(cache));
  if (p_.truncation) truncate(&rows, special_tokens);
  if (p_.post_processor) p_.post_processor->apply(&rows, special_tokens);
  Encoding out = rows.empty() ? Encoding() : std::move(rows.front().tokens);
  for (size_t i = 1; i < rows.size(); ++i) append(rows[i].tokens, &out);
  if (p_.padding) pad(&out);
  return out;
}

Encoding Pipeline::encode_text(const AlignedText& text, int32_t type_id, WordCache* cache) const {
  Encoding out;
  const AddedTokens& added = p_.lexicon->added;
  size_t normal_room = most_of(text.size()), word_room = normal_room;  // for what is written of all sections
  const size_t most_tokens = normal_room;
  for (const Section& given : added.find(text.text(), /*normalized=*/false)) {
    if (given.id != TokenTable::kNone) {
      add_token(given.id, type_id, text.source(given.begin, given.end), &out);
      continue;
    }
    AlignedText part = text.slice(given.begin, given.end);
    part.bound(normal_room);
    if (p_.normalizer) p_.normalizer->apply(&part);
    spend(part.size(), &normal_room);
    for (const Section& section : added.find(part.text(), /*normalized=*/true)) {
      if (section.id != TokenTable::kNone) {
        add_token(section.id, type_id, part.source(section.begin, section.end), &out);
      } else {
        AlignedText words = part.slice(section.begin, section.end);
        words.bound(word_room);
        spend(encode_section(std::move(words), type_id, most_tokens, cache, &out), &word_room);
      }
    }
  }
  return out;
}

size_t Pipeline::encode_section(AlignedText text, int32_t type_id, size_t most_tokens, WordCache* cache,
                                Encoding* out) const {
  const size_t size = text.size();
  Words words{std::move(text), {{0, size}}};
  if (p_.pre_tokenizer) p_.pre_tokenizer->apply(&words);
  const std::string_view all = words.text.text();
  std::vector<WordToken> made;
  for (const auto& [begin, end] : words.parts) {
    const std::string_view word = all.substr(begin, end - begin);
    const bool cached = word.size() <= WordCache::kLongestWord;
    const uint64_t hash = cached ? WordCache::hash(word) : 0;
    std::span<const WordToken> tokens = cached ? cache->find(word, hash) : std::span<const WordToken>();
    if (!tokens.data()) {
      made.clear();
      p_.lexicon->model->tokenize(word, words.as_bytes, &made);
      if (cached) cache->add(word, hash, made);
      tokens = made;
    }
    if (tokens.size() > most_tokens - std::min(most_tokens, out->ids.size())) refuse_growth("tokenize", most_tokens);
    for (const WordToken& token : tokens) {
      // Tokens of bytes, some of which have none, may end behind the word: their places are in the word then.
      const ByteRange range = token.end <= word.size() ? words.text.source(begin + token.begin, begin + token.end)
                                                       : ByteRange{token.begin, token.end};
      add_token(token.id, type_id, range, out);
    }
  }
  return all.size();
}

void Pipeline::truncate(std::vector<Row>* rows, bool special_tokens) const {
  const Truncation& t = *p_.truncation;
  const bool pair = rows->size() > 1;
  const size_t added = special_tokens && p_.post_processor ? p_.post_processor->adds(pair) : 0;
  if (added > t.max_length)
    throw ShapeError("tokenize: truncation to " + std::to_string(t.max_length) + " tokens leaves no room for " +
                     std::to_string(added) + " special ones; mend tokenizer.json");
  const size_t most = t.max_length - added;
  size_t first = (*rows)[0].tokens.ids.size(), second = pair ? (*rows)[1].tokens.ids.size() : 0;
  if (first + second <= most) return;
  const size_t excess = first + second - most;
  using Strategy = Truncation::Strategy;
  if (t.strategy == Strategy::longest_first || most == 0) {
    if (!pair || most == 0) {
      first = most;
      second = 0;
    } else {
      // The shorter one stays whole where it takes no more than half.
      size_t& shorter = first <= second ? first : second;
      size_t& longer = first <= second ? second : first;
      longer = shorter > most ? shorter : std::max(shorter, most - shorter);
      if (shorter + longer > most) {
        shorter = most / 2;
        longer = shorter + most % 2;
      }
    }
  } else {
    size_t& target = t.strategy == Strategy::only_first ? first : second;
    if (target <= excess)
      throw ShapeError("tokenize: " + std::to_string(excess) +
                       " tokens have to go, but the text that is to be cut has " + std::to_string(target) +
                       "; pass a shorter text");
    target -= excess;
  }
  cut(&(*rows)[0].tokens, first, t.left);
  if (pair) cut(&(*rows)[1].tokens, second, t.left);
}

void Pipeline::pad(Encoding* row) const {
  const Padding& p = *p_.padding;
  size_t length = std::max(row->ids.size(), p.length.value_or(0));
  if (p.multiple_of > 0) length += (p.multiple_of - length % p.multiple_of) % p.multiple_of;
  const size_t n = length - row->ids.size();
  const auto at = [&](auto& values) { return p.left ? values.begin() : values.end(); };
  row->ids.insert(at(row->ids), n, p.id);
  row->type_ids.insert(at(row->type_ids), n, p.type_id);
  row->offsets.insert(at(row->offsets), n, ByteRange{});
  row->added.insert(at(row->added), n, 1);
}

std::string Pipeline::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  size_t bytes = 0;
  for (const int32_t id : ids) {
    const std::string_view text = p_.lexicon->text(id);
    if (!text.data() || (skip_special && p_.lexicon->added.is_special(text))) continue;
    tokens.emplace_back(text);
    bytes += text.size();
  }
  if (p_.decoder) p_.decoder->apply(&tokens, most_of(bytes));
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !p_.decoder) out += ' ';
    out += tokens[i];
  }
  return out;
}

std::optional<std::string> Pipeline::token(int32_t id) const {
  const std::string_view text = p_.lexicon->text(id);
  if (!text.data()) return std::nullopt;
  return std::string(text);
}

std::optional<int32_t> Pipeline::id_of(std::string_view token) const {
  int32_t id = p_.lexicon->added.id_of(token);
  if (id == TokenTable::kNone) id = p_.lexicon->model->tokens().find(token);
  if (id == TokenTable::kNone) return std::nullopt;
  return id;
}

int64_t Pipeline::size() const {
  return int64_t{std::max(p_.lexicon->model->tokens().largest_id(), p_.lexicon->added.largest_id())} + 1;
}

bool Pipeline::special(int32_t id) const {
  const std::string_view text = p_.lexicon->text(id);
  return text.data() && p_.lexicon->added.is_special(text);
}

std::unique_ptr<WordCache> Pipeline::take_cache() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // in a forked process it may be shut for ever
  if (!lock || caches_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(caches_.back());
  caches_.pop_back();
  return cache;
}

void Pipeline::give_back(std::unique_ptr<WordCache> cache) const {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) caches_.push_back(std::move(cache));
}

}  // namespace heed::inline v0
