#include "tokenizer/character_map.h"

#include <cstring>

#include "heed/error.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr uint32_t kIsLeaf = uint32_t{1} << 31;

size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& where) {
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (bytes.size() < 4 || size > bytes.size() - 4 || size % 4 != 0)
    throw FormatError(where + ": the precompiled map of characters has " + std::to_string(bytes.size()) +
                      " bytes, which do not hold the trie of " + std::to_string(size) + " that it begins with");
  units_.resize(size / 4);
  if (size > 0) std::memcpy(units_.data(), bytes.data() + 4, size);
  texts_ = bytes.substr(4 + size);
  if (!valid_utf8(texts_))
    throw FormatError(where + ": the precompiled map of characters holds texts that are not UTF-8");
}

// What lies outside leads nowhere: its label is no byte.
uint32_t CharacterMap::unit(size_t at) const { return at < units_.size() ? units_[at] : kIsLeaf; }

// Calls visit(length, value) for each key that `text` begins with, until it returns false.
template <class Visit>
void CharacterMap::prefixes(std::string_view text, const Visit& visit) const {
  size_t at = offset_of(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) return;
    at ^= byte;
    const uint32_t u = unit(at);
    if ((u & (kIsLeaf | 0xFF)) != byte) return;
    at ^= offset_of(u);
    if ((u >> 8 & 1) && !visit(i + 1, int64_t{unit(at) & ~kIsLeaf})) return;
  }
}

std::optional<std::string_view> CharacterMap::text_at(int64_t at) const {
  if (static_cast<size_t>(at) > texts_.size()) return std::nullopt;
  const std::string_view rest = std::string_view(texts_).substr(static_cast<size_t>(at));
  return rest.substr(0, rest.find('\0'));
}

std::optional<std::string_view> CharacterMap::shortest(std::string_view text) const {
  std::optional<std::string_view> found;
  prefixes(text, [&](size_t, int64_t value) {
    found = text_at(value);
    return false;
  });
  return found;
}

std::optional<std::pair<size_t, std::string_view>> CharacterMap::longest(std::string_view text) const {
  std::optional<std::pair<size_t, std::string_view>> found;
  prefixes(text, [&](size_t length, int64_t value) {
    if (const auto content = text_at(value)) found.emplace(length, *content);
    return true;
  });
  return found;
}

}  // namespace heed::inline v0
