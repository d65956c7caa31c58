// Passes over rows whose last vector is partial, and the exponential, for every target. Included once per target.
#if defined(HEED_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Masked loads read past the end on targets without them, so a tail goes through a buffer.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
  return hn::Load(d, buffer);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
}

// step(load, store, live) for every vector of [0, n): load(p) and store(v, p) take pointers to the row's beginning and
// handle the tail, whose missing lanes read as 0; live(v) makes the missing lanes 0 again.
template <class D, class F>
HWY_INLINE void ForVectors(D d, int64_t n, F&& step) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    step([&](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); }, [&](V v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); },
         [](V v) HWY_ATTR { return v; });
  if (i < n)
    step([&](const T* p) HWY_ATTR { return LoadFirst(d, p + i, n - i); },
         [&](V v, T* p) HWY_ATTR { StoreFirst(v, d, p + i, n - i); },
         [&](V v) HWY_ATTR { return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), v); });
}

template <class D>
HWY_INLINE hn::TFromD<D> Total(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// e^x for x <= 88 (float) or 709 (double), NaN for NaN: x = n log 2 + r with |r| <= log(2) / 2, Taylor's polynomial for
// e^r, and 2^n put together from its bits; 0 where the result would be below the least normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  constexpr bool kFloat = sizeof(hn::TFromD<D>) == 4;
  constexpr int kMantissa = kFloat ? 23 : 52, kBias = kFloat ? 127 : 1023;
  const auto c = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); };
  // Adding 1.5 * 2^mantissa rounds to an integer, whose low bits then are those of n + bias: an exponent.
  const V magic = c(1.5 * static_cast<double>(int64_t{1} << kMantissa) + kBias);
  const V shifted = hn::MulAdd(x, c(1.4426950408889634), magic);
  const V n = hn::Sub(shifted, magic);
  // log(2) in two parts, the first short enough that its product with n is exact.
  V r = hn::NegMulAdd(n, c(kFloat ? 0.693359375 : 0.693145751953125), x);
  r = hn::NegMulAdd(n, c(kFloat ? -2.1219444005469058e-4 : 1.4286068203094172e-6), r);
  V y = c(1.0 / 5040);
  if constexpr (!kFloat) {
    y = c(1.0 / 6227020800);
    y = hn::MulAdd(y, r, c(1.0 / 479001600));
    y = hn::MulAdd(y, r, c(1.0 / 39916800));
    y = hn::MulAdd(y, r, c(1.0 / 3628800));
    y = hn::MulAdd(y, r, c(1.0 / 362880));
    y = hn::MulAdd(y, r, c(1.0 / 40320));
    y = hn::MulAdd(y, r, c(1.0 / 5040));
  }
  y = hn::MulAdd(y, r, c(1.0 / 720));
  y = hn::MulAdd(y, r, c(1.0 / 120));
  y = hn::MulAdd(y, r, c(1.0 / 24));
  y = hn::MulAdd(y, r, c(1.0 / 6));
  y = hn::MulAdd(y, r, c(1.0 / 2));
  y = hn::MulAdd(y, r, c(1));
  y = hn::MulAdd(y, r, c(1));
  const hn::RebindToSigned<D> di;
  const V power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, c(kFloat ? -87.33654 : -708.3964)), hn::Mul(y, power));
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
