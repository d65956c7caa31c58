#include "kernels/norm.h"

#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// One row: RMSNorm is LayerNorm without the mean and without beta.
template <class T>
void NormRow(const T* HWY_RESTRICT x, const T* gamma, const T* beta, T epsilon, T* HWY_RESTRICT y, T* mean, T* rstd,
             int64_t width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const T scale = T{1} / static_cast<T>(width);
  T m = 0;
  if (mean) {
    V sum = hn::Zero(d);
    for_vectors(d, width, [&](auto load, auto, auto) HWY_ATTR { sum = hn::Add(sum, load(x)); });
    *mean = m = sum_of_lanes(d, sum) * scale;
  }
  const V center = hn::Set(d, m);
  V squares = hn::Zero(d);
  for_vectors(d, width, [&](auto load, auto, auto live) HWY_ATTR {
    const V c = live(hn::Sub(load(x), center));
    squares = hn::MulAdd(c, c, squares);
  });
  *rstd = T{1} / std::sqrt(sum_of_lanes(d, squares) * scale + epsilon);
  const V factor = hn::Set(d, *rstd);
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    V h = hn::Mul(hn::Sub(load(x), center), factor);
    if (gamma) h = hn::Mul(h, load(gamma));
    if (beta) h = hn::Add(h, load(beta));
    store(h, y);
  });
}

template <class T>
void NormRowBackward(const T* HWY_RESTRICT dy, const T* HWY_RESTRICT x, const T* gamma, const T* mean, T rstd,
                     T* HWY_RESTRICT dx, int64_t width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const V center = hn::Set(d, mean ? *mean : T{0}), factor = hn::Set(d, rstd);
  V sum = hn::Zero(d), dot = hn::Zero(d);
  const auto scaled = [&](auto load) HWY_ATTR { return gamma ? hn::Mul(load(dy), load(gamma)) : load(dy); };
  for_vectors(d, width, [&](auto load, auto, auto) HWY_ATTR {
    const V g = scaled(load);  // 0 in missing lanes
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, hn::Mul(hn::Sub(load(x), center), factor), dot);
  });
  const T scale = T{1} / static_cast<T>(width);
  const V mean_g = hn::Set(d, mean ? sum_of_lanes(d, sum) * scale : T{0}),
          mean_dot = hn::Set(d, sum_of_lanes(d, dot) * scale);
  for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
    const V h = hn::Mul(hn::Sub(load(x), center), factor);
    store(hn::Mul(hn::NegMulAdd(h, mean_dot, hn::Sub(scaled(load), mean_g)), factor), dx);
  });
}

// Columns [begin, end) of the parameters' gradients, rows in order.
template <class T>
void NormColumns(const T* dy, const T* x, const T* mean, const T* rstd, T* dgamma, T* dbeta, int64_t rows,
                 int64_t width, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  for (int64_t row = 0; row < rows; ++row) {
    const T* g = dy + row * width + begin;
    const T* in = x + row * width + begin;
    const V center = hn::Set(d, mean ? mean[row] : T{0}), factor = hn::Set(d, rstd[row]);
    for_vectors(d, end - begin, [&](auto load, auto store, auto) HWY_ATTR {
      const V h = hn::Mul(hn::Sub(load(in), center), factor);
      if (dgamma) store(hn::MulAdd(load(g), h, load(dgamma + begin)), dgamma + begin);
      if (dbeta) store(hn::Add(load(g), load(dbeta + begin)), dbeta + begin);
    });
  }
}

#define HEED_NORM(T, Suffix)                                                                                         \
  void NormRow##Suffix(const T* x, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* rstd, int64_t w) {    \
    NormRow(x, gamma, beta, epsilon, y, mean, rstd, w);                                                              \
  }                                                                                                                  \
  void NormRowBackward##Suffix(const T* dy, const T* x, const T* gamma, const T* mean, T rstd, T* dx, int64_t w) {   \
    NormRowBackward(dy, x, gamma, mean, rstd, dx, w);                                                                \
  }                                                                                                                  \
  void NormColumns##Suffix(const T* dy, const T* x, const T* mean, const T* rstd, T* dgamma, T* dbeta, int64_t rows, \
                           int64_t w, int64_t begin, int64_t end) {                                                  \
    NormColumns(dy, x, mean, rstd, dgamma, dbeta, rows, w, begin, end);                                              \
  }
HEED_NORM(float, F32)
HEED_NORM(double, F64)
#undef HEED_NORM

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {

HEED_EXPORT(NormRowF32);
HEED_EXPORT(NormRowF64);
HEED_EXPORT(NormRowBackwardF32);
HEED_EXPORT(NormRowBackwardF64);
HEED_EXPORT(NormColumnsF32);
HEED_EXPORT(NormColumnsF64);

template <class T>
constexpr bool kFloat = std::is_same_v<T, float>;

constexpr int64_t kColumns = 64;

template <class T>
void forward(const T* x, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* rstd, int64_t rows, int64_t width,
             Executor& ex) {
  for_rows(rows, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      T* out = y + row * width;
      T* m = mean ? mean + row : nullptr;
      if constexpr (kFloat<T>)
        HEED_DISPATCH(NormRowF32)(in, gamma, beta, epsilon, out, m, rstd + row, width);
      else
        HEED_DISPATCH(NormRowF64)(in, gamma, beta, epsilon, out, m, rstd + row, width);
    }
  });
}

template <class T>
void backward(const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd, T* dx, T* dgamma, T* dbeta,
              int64_t rows, int64_t width, Executor& ex) {
  if (dx)
    for_rows(rows, width, ex, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * width;
        const T* m = mean ? mean + row : nullptr;
        if constexpr (kFloat<T>)
          HEED_DISPATCH(NormRowBackwardF32)(dy + at, x + at, gamma, m, rstd[row], dx + at, width);
        else
          HEED_DISPATCH(NormRowBackwardF64)(dy + at, x + at, gamma, m, rstd[row], dx + at, width);
      }
    });
  if (dgamma || dbeta)
    for_chunks(width, kColumns, ex, [&](int64_t begin, int64_t end) {
      if constexpr (kFloat<T>)
        HEED_DISPATCH(NormColumnsF32)(dy, x, mean, rstd, dgamma, dbeta, rows, width, begin, end);
      else
        HEED_DISPATCH(NormColumnsF64)(dy, x, mean, rstd, dgamma, dbeta, rows, width, begin, end);
    });
}

}  // namespace

template <class T>
void layer_norm_forward(const T* x, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* rstd, int64_t rows,
                        int64_t width, Executor& ex) {
  forward(x, gamma, beta, epsilon, y, mean, rstd, rows, width, ex);
}

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd, T* dx, T* dgamma,
                         T* dbeta, int64_t rows, int64_t width, Executor& ex) {
  backward(dy, x, gamma, mean, rstd, dx, dgamma, dbeta, rows, width, ex);
}

template <class T>
void rms_norm_forward(const T* x, const T* gamma, T epsilon, T* y, T* rstd, int64_t rows, int64_t width, Executor& ex) {
  forward<T>(x, gamma, nullptr, epsilon, y, nullptr, rstd, rows, width, ex);
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* gamma, const T* rstd, T* dx, T* dgamma, int64_t rows,
                       int64_t width, Executor& ex) {
  backward<T>(dy, x, gamma, nullptr, rstd, dx, dgamma, nullptr, rows, width, ex);
}

template void layer_norm_forward(const float*, const float*, const float*, float, float*, float*, float*, int64_t,
                                 int64_t, Executor&);
template void layer_norm_forward(const double*, const double*, const double*, double, double*, double*, double*,
                                 int64_t, int64_t, Executor&);
template void layer_norm_backward(const float*, const float*, const float*, const float*, const float*, float*, float*,
                                  float*, int64_t, int64_t, Executor&);
template void layer_norm_backward(const double*, const double*, const double*, const double*, const double*, double*,
                                  double*, double*, int64_t, int64_t, Executor&);
template void rms_norm_forward(const float*, const float*, float, float*, float*, int64_t, int64_t, Executor&);
template void rms_norm_forward(const double*, const double*, double, double*, double*, int64_t, int64_t, Executor&);
template void rms_norm_backward(const float*, const float*, const float*, const float*, float*, float*, int64_t,
                                int64_t, Executor&);
template void rms_norm_backward(const double*, const double*, const double*, const double*, double*, double*, int64_t,
                                int64_t, Executor&);

}  // namespace heed::inline v0
#endif
