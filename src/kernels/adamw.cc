#include "kernels/adamw.h"

#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <type_traits>

#include "simd/vector-inl.h"

#ifndef HEED_KERNELS_ADAMW_FACTORS
#define HEED_KERNELS_ADAMW_FACTORS
namespace heed::inline v0 {
namespace {

// What a step multiplies by: the bias corrections of m and v are folded into the rate and into the root.
template <class T>
struct AdamWFactors {
  AdamWFactors(const AdamWOptions& o, int64_t step, T scale)
      : gradient(scale),
        beta1(static_cast<T>(o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        rest1(static_cast<T>(1 - o.beta1)),
        rest2(static_cast<T>(1 - o.beta2)),
        rate(static_cast<T>(o.learning_rate / (1 - std::pow(o.beta1, static_cast<double>(step))))),
        correction(static_cast<T>(1 / (1 - std::pow(o.beta2, static_cast<double>(step))))),
        epsilon(static_cast<T>(o.epsilon)),
        keep(static_cast<T>(1 - o.learning_rate * o.weight_decay)) {}
  T gradient, beta1, beta2, rest1, rest2, rate, correction, epsilon, keep;
};

}  // namespace
}  // namespace heed::inline v0
#endif

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

template <class T>
void AdamW(T* HWY_RESTRICT parameters, const T* HWY_RESTRICT gradients, T* HWY_RESTRICT m, T* HWY_RESTRICT v, int64_t n,
           const AdamWFactors<T>& f) {
  const hn::ScalableTag<T> d;
  const auto scale = hn::Set(d, f.gradient), beta1 = hn::Set(d, f.beta1), beta2 = hn::Set(d, f.beta2);
  const auto rest1 = hn::Set(d, f.rest1), rest2 = hn::Set(d, f.rest2), rate = hn::Set(d, f.rate);
  const auto correction = hn::Set(d, f.correction), epsilon = hn::Set(d, f.epsilon), keep = hn::Set(d, f.keep);
  for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR {
    const auto g = hn::Mul(load(gradients), scale);
    const auto mean = hn::MulAdd(beta1, load(m), hn::Mul(rest1, g));
    const auto square = hn::MulAdd(beta2, load(v), hn::Mul(rest2, hn::Mul(g, g)));
    store(mean, m);
    store(square, v);
    const auto step = hn::Div(hn::Mul(rate, mean), hn::Add(hn::Sqrt(hn::Mul(square, correction)), epsilon));
    store(hn::MulSub(keep, load(parameters), step), parameters);
  });
}

void AdamWF32(float* p, const float* g, float* m, float* v, int64_t n, const AdamWFactors<float>& f) {
  AdamW(p, g, m, v, n, f);
}
void AdamWF64(double* p, const double* g, double* m, double* v, int64_t n, const AdamWFactors<double>& f) {
  AdamW(p, g, m, v, n, f);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {

HEED_EXPORT(AdamWF32);
HEED_EXPORT(AdamWF64);

template <class T>
void adamw_step(T* parameters, const T* gradients, T* m, T* v, int64_t n, int64_t step, const AdamWOptions& options,
                T gradient_scale, Executor& ex) {
  const AdamWFactors<T> factors(options, step, gradient_scale);
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(AdamWF32)(parameters + begin, gradients + begin, m + begin, v + begin, end - begin, factors);
    else
      HEED_DISPATCH(AdamWF64)(parameters + begin, gradients + begin, m + begin, v + begin, end - begin, factors);
  });
}

template void adamw_step(float*, const float*, float*, float*, int64_t, int64_t, const AdamWOptions&, float, Executor&);
template void adamw_step(double*, const double*, double*, double*, int64_t, int64_t, const AdamWOptions&, double,
                         Executor&);

}  // namespace heed::inline v0
#endif
