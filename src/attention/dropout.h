// Which weights dropout keeps. The draw of a weight is a pure function of (seed, stream, b, h, query, key), so
// backward and any tiling see the same mask.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "core/philox.h"

namespace heed::inline v0 {

struct Dropout {
  PhiloxKey key;       // of this call
  uint64_t threshold;  // a draw below it is kept
  double keep_scale;   // 1 / (1 - p)
};

/// The seed is the key of one Philox block at counter (stream, 'attn'); its first half is the key of the call.
template <class T>
Dropout dropout_of(const Problem<T>& p) {
  const PhiloxCounter block = philox4x32(
      {static_cast<uint32_t>(p.stream), static_cast<uint32_t>(p.stream >> 32), 0x6174746Eu, 0}, philox_key(p.seed));
  return {{block[0], block[1]}, keep_threshold(p.dropout), 1 / (1 - p.dropout)};
}

/// The four draws of keys 4 * quad .. 4 * quad + 3 of one query; head = b * Hq + h.
inline PhiloxCounter dropout_draws(const Dropout& dropout, int64_t head, int64_t query, int64_t quad) {
  return philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(query), static_cast<uint32_t>(head),
                     static_cast<uint32_t>(head >> 32)},
                    dropout.key);
}

/// 0 where the weight is dropped, 1 / (1 - p) where it is kept.
inline double dropout_factor(const Dropout& dropout, int64_t head, int64_t query, int64_t key) {
  return dropout_draws(dropout, head, query, key / 4)[static_cast<size_t>(key % 4)] < dropout.threshold
             ? dropout.keep_scale
             : 0;
}

}  // namespace heed::inline v0
