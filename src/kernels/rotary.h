// Rotary positions (Su et al. 2021, "RoFormer", 3.2.2 and 3.4.2).
#pragma once

#include <cstdint>

#include "heed/executor.h"
#include "heed/kinds.h"

namespace heed::inline v0 {

/// Turns pair p of the first rotary_size dimensions of each head by positions[row] * base^(-2p / rotary_size); the
/// inverse turns back, which is the backward. Element d of head h of row r is x[r * row_stride + h * head_stride + d];
/// y may be x. Dimensions past rotary_size are not written.
template <class T>
void rotary(const T* x, const int32_t* positions, T* y, int64_t rows, int64_t heads, int64_t head_size,
            int64_t rotary_size, double base, RotaryLayout layout, bool inverse, int64_t x_row_stride,
            int64_t x_head_stride, int64_t y_row_stride, int64_t y_head_stride, Executor& ex);

}  // namespace heed::inline v0
