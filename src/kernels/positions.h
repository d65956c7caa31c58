// Fixed positions of "Attention Is All You Need".
#pragma once

#include <cstdint>

namespace heed::inline v0 {

/// table (length, width) of the positions from `begin` on: sin(p / 10000^(2i/width)) in column 2i, cos of the same in
/// 2i + 1 (Vaswani et al. 2017, 3.5).
template <class T>
void sinusoidal_positions(T* table, int64_t begin, int64_t length, int64_t width);

}  // namespace heed::inline v0
