// The table from characters to texts that sentencepiece writes into its models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::inline v0 {

/// A double-array trie (darts-clone) over the bytes of keys, behind it the texts with a NUL each.
class CharacterMap {
 public:
  /// Throws FormatError "WHERE: ..." for sizes that do not fit.
  CharacterMap(std::string_view bytes, const std::string& where);

  /// What the shortest, or the longest, key that `text` begins with becomes; the longest with its bytes.
  std::optional<std::string_view> shortest(std::string_view text) const;
  std::optional<std::pair<size_t, std::string_view>> longest(std::string_view text) const;

 private:
  template <class Visit>
  void prefixes(std::string_view text, const Visit& visit) const;
  std::optional<std::string_view> text_at(int64_t at) const;
  uint32_t unit(size_t at) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace heed::inline v0
