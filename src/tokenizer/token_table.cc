#include "tokenizer/token_table.h"

#include <algorithm>
#include <functional>

#include "heed/error.h"

namespace heed::inline v0 {

void TokenTable::add(std::string_view text, int32_t id) {
  entries_.push_back({static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size()), id});
  texts_ += text;
  largest_ = std::max(largest_, id);
  longest_ = std::max(longest_, text.size());
}

size_t TokenTable::slot(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t at = std::hash<std::string_view>()(text) & mask;
  while (slots_[at] != 0 && of(entries_[slots_[at] - 1]) != text) at = (at + 1) & mask;
  return at;
}

void TokenTable::finish(const std::string& where) {
  if (longest_ > kLongest)
    throw FormatError(where + ": a token of " + std::to_string(longest_) + " bytes; at most " +
                      std::to_string(kLongest) + " are read");
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  for (size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i].id == entries_[i - 1].id)
      throw FormatError(where + ": two tokens have the id " + std::to_string(entries_[i].id));
  size_t size = 16;
  while (size < 2 * entries_.size()) size *= 2;
  slots_.assign(size, 0);
  for (uint32_t i = 0; i < entries_.size(); ++i) slots_[slot(of(entries_[i]))] = i + 1;
}

int32_t TokenTable::find(std::string_view text) const {
  if (text.size() > longest_) return kNone;
  const uint32_t entry = slots_[slot(text)];
  return entry == 0 ? kNone : entries_[entry - 1].id;
}

std::string_view TokenTable::text(int32_t id) const {
  // Without holes an id is a place.
  if (id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[static_cast<size_t>(id)].id == id)
    return of(entries_[static_cast<size_t>(id)]);
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), id,
                                      [](const Entry& entry, int32_t wanted) { return entry.id < wanted; });
  return found == entries_.end() || found->id != id ? std::string_view() : of(*found);
}

}  // namespace heed::inline v0
