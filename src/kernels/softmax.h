// Softmax and its logarithm over rows, shifted by the row's maximum.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

/// x, y (rows, width); y may be x.
template <class T>
void softmax_forward(const T* x, T* y, int64_t rows, int64_t width, Executor& ex);
/// dx = y (dy - sum(dy y)), y being the forward's result.
template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t width, Executor& ex);

template <class T>
void log_softmax_forward(const T* x, T* y, int64_t rows, int64_t width, Executor& ex);
/// dx = dy - exp(y) sum(dy).
template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t width, Executor& ex);

// One row each; shared with the losses.

/// log(sum(exp(x))); *sum is the plain sum of x where asked for.
template <class T>
T log_sum_exp(const T* x, int64_t width, double* sum = nullptr);
/// y = scale * (exp(x - shift) - offset)
template <class T>
void scaled_exp(const T* x, T shift, T offset, T scale, T* y, int64_t width);

}  // namespace heed::inline v0
