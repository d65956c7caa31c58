// What a compressed file may unpack to: a small one must not take all memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heed::inline v0 {

inline constexpr uint64_t kMostUnpackedRatio = 100;

/// Bytes that may come of so many packed ones. Texts and weights do not reach the ratio.
inline uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kAlways = uint64_t{64} << 20;
  return std::max(kAlways, packed > UINT64_MAX / kMostUnpackedRatio ? UINT64_MAX : kMostUnpackedRatio * packed);
}

}  // namespace heed::inline v0
