// Cutting a range into pieces that depend on its length alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

inline constexpr int64_t kChunk =
    16384;  // elements of an elementwise pass: two cores share 32 K, 16 KB is one way of L1

/// f(begin, end) over [0, n) in pieces of `chunk`; one piece runs on the calling thread.
template <class F>
void for_chunks(int64_t n, int64_t chunk, Executor& ex, F&& f) {
  parallel_for(ex, (n + chunk - 1) / chunk, [&](int64_t i) { f(i * chunk, std::min(n, (i + 1) * chunk)); });
}

/// Rows of `width` elements, about kChunk elements a piece.
template <class F>
void for_rows(int64_t rows, int64_t width, Executor& ex, F&& f) {
  for_chunks(rows, std::max<int64_t>(1, kChunk / std::max<int64_t>(width, 1)), ex, f);
}

}  // namespace heed::inline v0
