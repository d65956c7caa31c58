#include "kernels/elementwise.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/chunks.h"

// These loops are bound by memory, not by arithmetic: the compiler's baseline vectors already reach it.
namespace heed::inline v0 {

template <class T>
void add(const T* a, const T* b, T* y, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
  });
}

template <class T>
void accumulate(const T* a, T* y, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] += a[i];
  });
}

template <class T>
void multiply(const T* a, const T* b, T* y, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = a[i] * b[i];
  });
}

template <class T>
void scale(const T* x, T factor, T* y, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
  });
}

template <class T>
void bounded_gate_forward(const T* gate_up, T* y, int64_t rows, int64_t width, T limit, Executor& ex) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *gate = gate_up + row * 2 * width, *up = gate + width;
      T *of_gate = y + row * 2 * width, *of_up = of_gate + width;
      for (int64_t i = 0; i < width; ++i) of_gate[i] = gate[i] > limit ? limit : gate[i];
      for (int64_t i = 0; i < width; ++i) of_up[i] = 1 + (up[i] > limit ? limit : up[i] < -limit ? -limit : up[i]);
    }
  });
}

template <class T>
void bounded_gate_backward(const T* dy, const T* gate_up, T* dx, int64_t rows, int64_t width, T limit, Executor& ex) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t gate = row * 2 * width, up = gate + width;
      for (int64_t i = gate; i < up; ++i) dx[i] = gate_up[i] > limit ? 0 : dy[i];
      for (int64_t i = up; i < up + width; ++i) dx[i] = gate_up[i] > limit || gate_up[i] < -limit ? 0 : dy[i];
    }
  });
}

template <class T>
std::vector<double> sums_of_squares(const T* x, int64_t n, Executor& ex) {
  std::vector<double> parts(static_cast<size_t>((n + kChunk - 1) / kChunk));
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    constexpr int kSums = 8;  // independent, so that the additions overlap
    double sums[kSums] = {};
    int64_t i = begin;
    for (; i + kSums <= end; i += kSums)
      for (int j = 0; j < kSums; ++j) {
        const double value = static_cast<double>(x[i + j]);
        sums[j] += value * value;
      }
    for (; i < end; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    double sum = 0;
    for (const double part : sums) sum += part;
    parts[static_cast<size_t>(begin / kChunk)] = sum;
  });
  return parts;
}

template <class T>
double sum_of_squares(const T* x, int64_t n, Executor& ex) {
  double total = 0;
  for (const double part : sums_of_squares(x, n, ex)) total += part;
  return total;
}

template <class T>
bool all_finite(const T* x, int64_t n, Executor& ex) {
  std::atomic<bool> finite{true};
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    bool here = true;
    for (int64_t i = begin; i < end; ++i) here &= std::isfinite(x[i]);
    if (!here) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

#define HEED_ELEMENTWISE(T)                                                                    \
  template void add(const T*, const T*, T*, int64_t, Executor&);                               \
  template void accumulate(const T*, T*, int64_t, Executor&);                                  \
  template void multiply(const T*, const T*, T*, int64_t, Executor&);                          \
  template void scale(const T*, T, T*, int64_t, Executor&);                                    \
  template void bounded_gate_forward(const T*, T*, int64_t, int64_t, T, Executor&);            \
  template void bounded_gate_backward(const T*, const T*, T*, int64_t, int64_t, T, Executor&); \
  template std::vector<double> sums_of_squares(const T*, int64_t, Executor&);                  \
  template double sum_of_squares(const T*, int64_t, Executor&);                                \
  template bool all_finite(const T*, int64_t, Executor&);
HEED_ELEMENTWISE(float)
HEED_ELEMENTWISE(double)
#undef HEED_ELEMENTWISE

}  // namespace heed::inline v0
