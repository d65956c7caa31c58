// The tokens of a model: texts and their ids, which may have holes between them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

class TokenTable {
 public:
  /// Of equal texts the last one counts.
  void add(std::string_view text, int32_t id);
  /// To be called after the last add(). Throws FormatError "WHERE: ..." for an id that two texts have, and for a text
  /// of more than kLongest bytes: models look for tokens of every length at every place of a text.
  void finish(const std::string& where);

  static constexpr int32_t kNone = -1;
  static constexpr size_t kLongest = 4096;
  int32_t find(std::string_view text) const;
  /// Nothing, data() == nullptr, where an id names no token.
  std::string_view text(int32_t id) const;

  size_t count() const { return entries_.size(); }
  int32_t largest_id() const { return largest_; }  // -1 where there are none
  size_t longest() const { return longest_; }      // bytes

  template <class Visit>
  void each(const Visit& visit) const {
    for (const Entry& entry : entries_) visit(of(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t begin, size;
    int32_t id;
  };
  std::string_view of(const Entry& entry) const { return std::string_view(texts_).substr(entry.begin, entry.size); }
  size_t slot(std::string_view text) const;  // where it is in slots_, or would be

  std::string texts_;
  std::vector<Entry> entries_;   // once finished in the order of their ids
  std::vector<uint32_t> slots_;  // a hash table of entries, counted from 1; 0 is free
  int32_t largest_ = -1;
  size_t longest_ = 0;
};

}  // namespace heed::inline v0
