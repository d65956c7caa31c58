// The rows that a convolution reads at once.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

struct Unfolding {
  int64_t batch, length, channels;
  int64_t size, step, padding;
  int64_t rows() const { return (length + 2 * padding - size) / step + 1; }
};

/// x (batch, length, channels) -> y (batch, rows, channels * size): y[b, j, c * size + k] is x[b, j * step + k -
/// padding, c], or 0 beyond the ends.
template <class T>
void unfold_forward(const T* x, T* y, const Unfolding& how, Executor& ex);
template <class T>
void unfold_backward(const T* dy, T* dx, const Unfolding& how, Executor& ex);

}  // namespace heed::inline v0
