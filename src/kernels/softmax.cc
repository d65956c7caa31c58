#include "kernels/softmax.h"

#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "simd/exp-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

template <class T>
T RowMax(const T* x, int64_t width) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto top = hn::Set(d, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) top = hn::Max(top, hn::LoadU(d, x + i));
  T result = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; i < width; ++i) result = std::max(result, x[i]);
  return result;
}

template <class T>
RowLogSum<T> LogSumExp(const T* x, int64_t width, double* plain_sum) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const T top = RowMax(x, width);
  const V shift = hn::Set(d, top);
  V sum = hn::Zero(d), plain = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto, auto live) HWY_ATTR {
    const V v = hn::Sub(load(x), shift);
    plain = hn::Add(plain, live(v));
    sum = hn::Add(sum, live(exp(d, v)));
  });
  if (plain_sum) *plain_sum = static_cast<double>(sum_of_lanes(d, plain));
  return {top, std::log(sum_of_lanes(d, sum))};
}

template <class T>
void ScaledExp(const T* x, RowLogSum<T> whole, T offset, T scale, T* y, int64_t width) {
  const hn::ScalableTag<T> d;
  const auto top = hn::Set(d, whole.top), log = hn::Set(d, whole.log);
  const auto voffset = hn::Set(d, offset), vscale = hn::Set(d, scale);
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    store(hn::Mul(hn::Sub(exp(d, hn::Sub(hn::Sub(load(x), top), log)), voffset), vscale), y);
  });
}

template <class T>
void SoftmaxRow(const T* x, T* y, int64_t width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const V shift = hn::Set(d, RowMax(x, width));
  V sum = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto store, auto live) HWY_ATTR {
    const V e = exp(d, hn::Sub(load(x), shift));
    sum = hn::Add(sum, live(e));
    store(e, y);
  });
  const V factor = hn::Set(d, T{1} / sum_of_lanes(d, sum));
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR { store(hn::Mul(load(y), factor), y); });
}

// The shift and the logarithm go one after the other: their sum would round the digits of small results away.
template <class T>
void LogSoftmaxRow(const T* x, T* y, int64_t width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const V shift = hn::Set(d, RowMax(x, width));
  V sum = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto store, auto live) HWY_ATTR {
    const V v = hn::Sub(load(x), shift);
    sum = hn::Add(sum, live(exp(d, v)));
    store(v, y);
  });
  const V log = hn::Set(d, std::log(sum_of_lanes(d, sum)));
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR { store(hn::Sub(load(y), log), y); });
}

template <class T>
void SoftmaxRowBackward(const T* dy, const T* y, T* dx, int64_t width) {
  const hn::ScalableTag<T> d;
  auto dot = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto, auto) HWY_ATTR { dot = hn::MulAdd(load(dy), load(y), dot); });
  const auto total = hn::Set(d, sum_of_lanes(d, dot));
  for_vectors(d, width,
              [&](auto load, auto store, auto) HWY_ATTR { store(hn::Mul(load(y), hn::Sub(load(dy), total)), dx); });
}

template <class T>
void LogSoftmaxRowBackward(const T* dy, const T* y, T* dx, int64_t width) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto, auto) HWY_ATTR { sum = hn::Add(sum, load(dy)); });
  const auto total = hn::Set(d, sum_of_lanes(d, sum));
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    store(hn::NegMulAdd(exp(d, load(y)), total, load(dy)), dx);
  });
}

RowLogSum<float> LogSumExpF32(const float* x, int64_t width, double* sum) { return LogSumExp(x, width, sum); }
RowLogSum<double> LogSumExpF64(const double* x, int64_t width, double* sum) { return LogSumExp(x, width, sum); }
void ScaledExpF32(const float* x, RowLogSum<float> whole, float offset, float scale, float* y, int64_t width) {
  ScaledExp(x, whole, offset, scale, y, width);
}
void ScaledExpF64(const double* x, RowLogSum<double> whole, double offset, double scale, double* y, int64_t width) {
  ScaledExp(x, whole, offset, scale, y, width);
}
void SoftmaxF32(const float* x, float* y, int64_t width) { SoftmaxRow(x, y, width); }
void SoftmaxF64(const double* x, double* y, int64_t width) { SoftmaxRow(x, y, width); }
void LogSoftmaxF32(const float* x, float* y, int64_t width) { LogSoftmaxRow(x, y, width); }
void LogSoftmaxF64(const double* x, double* y, int64_t width) { LogSoftmaxRow(x, y, width); }
void SoftmaxBackwardF32(const float* dy, const float* y, float* dx, int64_t w) { SoftmaxRowBackward(dy, y, dx, w); }
void SoftmaxBackwardF64(const double* dy, const double* y, double* dx, int64_t w) { SoftmaxRowBackward(dy, y, dx, w); }
void LogSoftmaxBackwardF32(const float* dy, const float* y, float* dx, int64_t w) {
  LogSoftmaxRowBackward(dy, y, dx, w);
}
void LogSoftmaxBackwardF64(const double* dy, const double* y, double* dx, int64_t w) {
  LogSoftmaxRowBackward(dy, y, dx, w);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {

HEED_EXPORT(LogSumExpF32);
HEED_EXPORT(LogSumExpF64);
HEED_EXPORT(ScaledExpF32);
HEED_EXPORT(ScaledExpF64);
HEED_EXPORT(SoftmaxF32);
HEED_EXPORT(SoftmaxF64);
HEED_EXPORT(LogSoftmaxF32);
HEED_EXPORT(LogSoftmaxF64);
HEED_EXPORT(SoftmaxBackwardF32);
HEED_EXPORT(SoftmaxBackwardF64);
HEED_EXPORT(LogSoftmaxBackwardF32);
HEED_EXPORT(LogSoftmaxBackwardF64);

template <>
RowLogSum<float> log_sum_exp(const float* x, int64_t width, double* sum) {
  return HEED_DISPATCH(LogSumExpF32)(x, width, sum);
}
template <>
RowLogSum<double> log_sum_exp(const double* x, int64_t width, double* sum) {
  return HEED_DISPATCH(LogSumExpF64)(x, width, sum);
}
template <>
void scaled_exp(const float* x, RowLogSum<float> whole, float offset, float scale, float* y, int64_t width) {
  HEED_DISPATCH(ScaledExpF32)(x, whole, offset, scale, y, width);
}
template <>
void scaled_exp(const double* x, RowLogSum<double> whole, double offset, double scale, double* y, int64_t width) {
  HEED_DISPATCH(ScaledExpF64)(x, whole, offset, scale, y, width);
}

namespace {

template <class F>
void each_row(int64_t rows, int64_t width, Executor& ex, F&& f) {
  for_rows(rows, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row * width);
  });
}

}  // namespace

template <class T>
void softmax_forward(const T* x, T* y, int64_t rows, int64_t width, Executor& ex) {
  each_row(rows, width, ex, [&](int64_t at) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(SoftmaxF32)(x + at, y + at, width);
    else
      HEED_DISPATCH(SoftmaxF64)(x + at, y + at, width);
  });
}

template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t width, Executor& ex) {
  each_row(rows, width, ex, [&](int64_t at) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(SoftmaxBackwardF32)(dy + at, y + at, dx + at, width);
    else
      HEED_DISPATCH(SoftmaxBackwardF64)(dy + at, y + at, dx + at, width);
  });
}

template <class T>
void log_softmax_forward(const T* x, T* y, int64_t rows, int64_t width, Executor& ex) {
  each_row(rows, width, ex, [&](int64_t at) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(LogSoftmaxF32)(x + at, y + at, width);
    else
      HEED_DISPATCH(LogSoftmaxF64)(x + at, y + at, width);
  });
}

template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t width, Executor& ex) {
  each_row(rows, width, ex, [&](int64_t at) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(LogSoftmaxBackwardF32)(dy + at, y + at, dx + at, width);
    else
      HEED_DISPATCH(LogSoftmaxBackwardF64)(dy + at, y + at, dx + at, width);
  });
}

template void softmax_forward(const float*, float*, int64_t, int64_t, Executor&);
template void softmax_forward(const double*, double*, int64_t, int64_t, Executor&);
template void softmax_backward(const float*, const float*, float*, int64_t, int64_t, Executor&);
template void softmax_backward(const double*, const double*, double*, int64_t, int64_t, Executor&);
template void log_softmax_forward(const float*, float*, int64_t, int64_t, Executor&);
template void log_softmax_forward(const double*, double*, int64_t, int64_t, Executor&);
template void log_softmax_backward(const float*, const float*, float*, int64_t, int64_t, Executor&);
template void log_softmax_backward(const double*, const double*, double*, int64_t, int64_t, Executor&);

}  // namespace heed::inline v0
#endif
