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

/// A row's log(sum(exp(x))) in two parts: their sum would round the logarithm away where the row's numbers are large.
template <class T>
struct RowLogSum {
  T top;  // the largest x
  T log;  // log(sum(exp(x - top)))

  T sum() const { return top + log; }
  /// x less the whole.
  T below(T x) const { return x - top - log; }
};

/// *sum is that of x - top where asked for.
template <class T>
RowLogSum<T> log_sum_exp(const T* x, int64_t width, double* sum = nullptr);
/// y = scale * (exp(whole.below(x)) - offset)
template <class T>
void scaled_exp(const T* x, RowLogSum<T> whole, T offset, T scale, T* y, int64_t width);

}  // namespace heed::inline v0
