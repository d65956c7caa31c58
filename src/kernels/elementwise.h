// Passes over flat arrays.
#pragma once

#include <cstdint>
#include <vector>

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
/// Of rows of 2 * width, the gate first: min(gate, limit), and 1 + up held within -limit..limit. NaN stays.
template <class T>
void bounded_gate_forward(const T* gate_up, T* y, int64_t rows, int64_t width, T limit, Executor& ex);
template <class T>
void bounded_gate_backward(const T* dy, const T* gate_up, T* dx, int64_t rows, int64_t width, T limit, Executor& ex);

/// Of each kChunk numbers, in double.
template <class T>
std::vector<double> sums_of_squares(const T* x, int64_t n, Executor& ex);
/// These summed in order.
template <class T>
double sum_of_squares(const T* x, int64_t n, Executor& ex);
/// No infinity and no NaN.
template <class T>
bool all_finite(const T* x, int64_t n, Executor& ex);

}  // namespace heed::inline v0
