// Passes over flat arrays.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

template <class T>
void add(const T* a, const T* b, T* y, int64_t n, Executor& ex);  // y = a + b
template <class T>
void accumulate(const T* a, T* y, int64_t n, Executor& ex);  // y += a
template <class T>
void multiply(const T* a, const T* b, T* y, int64_t n, Executor& ex);  // y = a * b
template <class T>
void scale(const T* x, T factor, T* y, int64_t n, Executor& ex);  // y = factor * x; y may be x

/// In double, pieces summed in order.
template <class T>
double sum_of_squares(const T* x, int64_t n, Executor& ex);
/// No infinity and no NaN.
template <class T>
bool all_finite(const T* x, int64_t n, Executor& ex);

}  // namespace heed::inline v0
