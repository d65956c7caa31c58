#include "tokenizer/word_cache.h"

namespace heed::inline v0 {

size_t WordCache::slot(std::string_view word, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].size != 0 &&
         (slots_[at].hash != hash || std::string_view(texts_).substr(slots_[at].word, slots_[at].size) != word))
    at = (at + 1) & mask;
  return at;
}

std::span<const WordToken> WordCache::find(std::string_view word, uint64_t hash) const {
  const Slot& found = slots_[slot(word, hash)];
  if (found.size == 0) return {};
  return std::span(tokens_).subspan(found.tokens, found.count);
}

void WordCache::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& s : old)
    if (s.size != 0) slots_[slot(std::string_view(texts_).substr(s.word, s.size), s.hash)] = s;
}

void WordCache::add(std::string_view word, uint64_t hash, std::span<const WordToken> tokens) {
  if (word.size() > kLongestWord || tokens.empty()) return;
  if (words_ == kMostWords || texts_.size() + word.size() > kMostBytes ||
      tokens_.size() + tokens.size() > kMostBytes / sizeof(WordToken))
    *this = WordCache();  // what is common comes again soon
  if (2 * (words_ + 1) > slots_.size()) grow();
  slots_[slot(word, hash)] = {hash, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(word.size()),
                              static_cast<uint32_t>(tokens_.size()), static_cast<uint32_t>(tokens.size())};
  texts_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++words_;
}

}  // namespace heed::inline v0
