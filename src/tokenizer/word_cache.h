// The tokens of words that came before: a text has few different ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/model.h"

namespace heed::inline v0 {

class WordCache {
 public:
  /// Those of a word, which stay until the next call; data() == nullptr where it is not there.
  std::span<const WordToken> find(std::string_view word, uint64_t hash) const;
  void add(std::string_view word, uint64_t hash, std::span<const WordToken> tokens);

  static constexpr size_t kLongestWord = 256;  // bytes; longer ones hardly come again
  static uint64_t hash(std::string_view word) { return std::hash<std::string_view>()(word); }

 private:
  static constexpr size_t kMostWords = 1 << 17;
  static constexpr size_t kMostBytes = 8 << 20;
  struct Slot {
    uint64_t hash = 0;
    uint32_t word = 0, size = 0;  // 0: free
    uint32_t tokens = 0, count = 0;
  };
  size_t slot(std::string_view word, uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(1 << 10);
  size_t words_ = 0;
  std::string texts_;
  std::vector<WordToken> tokens_;
};

}  // namespace heed::inline v0
