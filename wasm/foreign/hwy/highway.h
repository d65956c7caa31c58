// Highway, with what its WASM target lacks in version 1.0.3: vectors of double, as far as heed's kernels use them.
#include_next <hwy/highway.h>

#ifndef HEED_WASM_HIGHWAY_H_
#define HEED_WASM_HIGHWAY_H_

#include <cmath>

#if HWY_TARGET == HWY_WASM

HWY_BEFORE_NAMESPACE();
namespace hwy {
namespace HWY_NAMESPACE {

template <size_t N, HWY_IF_LE128(double, N)>
HWY_API Vec128<double, N> Set(Simd<double, N, 0> /* tag */, const double t) {
  return Vec128<double, N>{wasm_f64x2_splat(t)};
}

template <size_t N>
HWY_API double GetLane(const Vec128<double, N> v) {
  return wasm_f64x2_extract_lane(v.raw, 0);
}

#define HEED_OF_TWO(Name, instruction)                                                   \
  template <size_t N>                                                                    \
  HWY_API Vec128<double, N> Name(const Vec128<double, N> a, const Vec128<double, N> b) { \
    return Vec128<double, N>{instruction(a.raw, b.raw)};                                 \
  }
HEED_OF_TWO(operator+, wasm_f64x2_add)
HEED_OF_TWO(operator-, wasm_f64x2_sub)
HEED_OF_TWO(operator*, wasm_f64x2_mul)
HEED_OF_TWO(operator/, wasm_f64x2_div)
#undef HEED_OF_TWO

// Of NaN and x they are x, as Highway's.
template <size_t N>
HWY_API Vec128<double, N> Min(const Vec128<double, N> a, const Vec128<double, N> b) {
  return Vec128<double, N>{wasm_f64x2_pmin(b.raw, a.raw)};
}
template <size_t N>
HWY_API Vec128<double, N> Max(const Vec128<double, N> a, const Vec128<double, N> b) {
  return Vec128<double, N>{wasm_f64x2_pmax(b.raw, a.raw)};
}

template <size_t N>
HWY_API Vec128<double, N> Abs(const Vec128<double, N> v) {
  return Vec128<double, N>{wasm_f64x2_abs(v.raw)};
}

template <size_t N>
HWY_API Vec128<double, N> MulAdd(const Vec128<double, N> mul, const Vec128<double, N> x, const Vec128<double, N> add) {
  return mul * x + add;
}
template <size_t N>
HWY_API Vec128<double, N> MulSub(const Vec128<double, N> mul, const Vec128<double, N> x, const Vec128<double, N> sub) {
  return mul * x - sub;
}
template <size_t N>
HWY_API Vec128<double, N> NegMulAdd(const Vec128<double, N> mul, const Vec128<double, N> x,
                                    const Vec128<double, N> add) {
  return add - mul * x;
}

#define HEED_COMPARISON(Name, instruction)                                                \
  template <size_t N>                                                                     \
  HWY_API Mask128<double, N> Name(const Vec128<double, N> a, const Vec128<double, N> b) { \
    return Mask128<double, N>{instruction(a.raw, b.raw)};                                 \
  }
HEED_COMPARISON(operator==, wasm_f64x2_eq)
HEED_COMPARISON(operator!=, wasm_f64x2_ne)
HEED_COMPARISON(operator>, wasm_f64x2_gt)
HEED_COMPARISON(operator>=, wasm_f64x2_ge)
HEED_COMPARISON(operator<=, wasm_f64x2_le)
#undef HEED_COMPARISON

#define HEED_BY_LANES(Name, function)                                                       \
  template <size_t N>                                                                       \
  HWY_API Vec128<double, N> Name(Simd<double, N, 0> /* tag */, const Vec128<double, N> v) { \
    const double first = function(wasm_f64x2_extract_lane(v.raw, 0));                       \
    const double second = function(wasm_f64x2_extract_lane(v.raw, 1));                      \
    return Vec128<double, N>{wasm_f64x2_make(first, second)};                               \
  }
HEED_BY_LANES(Tanh, std::tanh)
HEED_BY_LANES(Log, std::log)
#undef HEED_BY_LANES

}  // namespace HWY_NAMESPACE
}  // namespace hwy
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_WASM
#endif  // HEED_WASM_HIGHWAY_H_
