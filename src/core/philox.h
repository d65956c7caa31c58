// Philox4x32-10, a counter-based random generator: every draw is a pure function of (key, counter), so any part of a
// stream can be computed anywhere, in any order. Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2,
// 3", 3.3.
#pragma once

#include <array>
#include <cstdint>

namespace heed::inline v0 {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u, kPhiloxM1 = 0xCD9E8D57u;  // multipliers of table 2
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u, kPhiloxW1 = 0xBB67AE85u;  // Weyl increments of the key

inline PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxM0} * c[0], p1 = uint64_t{kPhiloxM1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k = {k[0] + kPhiloxW0, k[1] + kPhiloxW1};
  }
  return c;
}

inline PhiloxKey philox_key(uint64_t seed) { return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}; }

/// A draw is kept when it is below this: kept with probability 1 - p, to 2^-32.
inline uint64_t keep_threshold(double p) { return static_cast<uint64_t>((1.0 - p) * 4294967296.0 + 0.5); }

}  // namespace heed::inline v0
