// The exponential, for every target. Included once per target.
#if defined(HEED_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_EXP_INL_H_
#undef HEED_SIMD_EXP_INL_H_
#else
#define HEED_SIMD_EXP_INL_H_
#endif

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// (2^f - 1) / f for f in [-0.5, 0.5]: a polynomial by Remez exchange, with which 1 + f y is 2^f with a relative error
// of 2e-9 for float, 3e-18 for double.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_slope(D d, V f) {
  const auto c = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); };
  V y;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    y = hn::MulAdd(c(1.53458121587401825e-4), f, c(1.33999312094741405e-3));
    y = hn::MulAdd(y, f, c(9.61848895652279157e-3));
    y = hn::MulAdd(y, f, c(5.55032877699766376e-2));
    y = hn::MulAdd(y, f, c(2.40226468906395721e-1));
    y = hn::MulAdd(y, f, c(6.93147205737252675e-1));
  } else {
    y = hn::MulAdd(c(4.43528094461033616e-10), f, c(7.07410562624565937e-9));
    y = hn::MulAdd(y, f, c(1.01781980333285277e-7));
    y = hn::MulAdd(y, f, c(1.3215433089594629e-6));
    y = hn::MulAdd(y, f, c(1.52527334899608046e-5));
    y = hn::MulAdd(y, f, c(1.5403530462530462e-4));
    y = hn::MulAdd(y, f, c(1.33335581467899503e-3));
    y = hn::MulAdd(y, f, c(9.61812910758833508e-3));
    y = hn::MulAdd(y, f, c(5.55041086648199215e-2));
    y = hn::MulAdd(y, f, c(2.40226506959101562e-1));
    y = hn::MulAdd(y, f, c(6.9314718055994533e-1));
  }
  return y;
}

// 2^f power, for f in [-0.5, 0.5] and a power of two. power + (f power) y rounds as (1 + f y) power does, where f power
// is normal. Its chain of operations is one product shorter: that length bounds a loop of exponentials.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_of_fraction(D d, V f, V power) {
  return hn::MulAdd(exp2_slope(d, f), hn::Mul(f, power), power);
}

// What turns a number into an integer n, and that into the bits of 2^n.
template <class T>
struct ExponentBits {
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52, kBias = sizeof(T) == 4 ? 127 : 1023;
  /// Adding it rounds to an integer, whose low bits then are those of n + bias.
  static constexpr T kMagic = static_cast<T>(1.5 * static_cast<double>(int64_t{1} << kMantissa) + kBias);
};

/// e^x for x <= 88 (float) or 709 (double), as 2^(x log2 e): fewer steps than exp(), and a relative error that grows by
/// 1.4e-8 |x| (float). For weights of a softmax, which are small where x is far from 0. 0 where the result would be
/// below the least normal number, NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_score(D d, V x) {
  using T = hn::TFromD<D>;
  using Bits = ExponentBits<T>;
  const V unit = hn::Set(d, static_cast<T>(1.4426950408889634));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // y - round(y) and z 2^n are instructions, and one of them masks.
  if constexpr (sizeof(T) == 4 && sizeof(V) == 64) {
    const V least = hn::Set(d, static_cast<T>(1 - Bits::kBias)), y = hn::Mul(x, unit);
    const V f{_mm512_reduce_ps(y.raw, _MM_FROUND_TO_NEAREST_INT)};
    const __mmask16 normal = _mm512_cmp_ps_mask(y.raw, least.raw, _CMP_NLT_UQ);
    const V of_fraction = hn::MulAdd(exp2_slope(d, f), f, hn::Set(d, T{1}));
    return V{_mm512_maskz_scalef_ps(normal, of_fraction.raw, hn::Sub(y, f).raw)};
  }
#endif
  const V magic = hn::Set(d, Bits::kMagic), shifted = hn::MulAdd(x, unit, magic);
  const V f = hn::MulSub(x, unit, hn::Sub(shifted, magic));
  const hn::RebindToSigned<D> di;
  const V power = hn::BitCast(d, hn::ShiftLeft<Bits::kMantissa>(hn::BitCast(di, shifted)));
  const V least = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? -87.33654 : -708.3964));
  return hn::IfThenZeroElse(hn::Lt(x, least), exp2_of_fraction(d, f, power));
}

/// e^x for x <= 88 (float) or 709 (double), otherwise as exp_of_score.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  using T = hn::TFromD<D>;
  using Bits = ExponentBits<T>;
  constexpr bool kFloat = sizeof(T) == 4;
  const auto c = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
  const V magic = hn::Set(d, Bits::kMagic), shifted = hn::MulAdd(x, c(1.4426950408889634), magic);
  const V n = hn::Sub(shifted, magic);
  // x - n log(2), in two parts of which the first is short enough that its product with n is exact.
  V r = hn::NegMulAdd(n, c(kFloat ? 0.693359375 : 0.693145751953125), x);
  r = hn::NegMulAdd(n, c(kFloat ? -2.1219444005469058e-4 : 1.4286068203094172e-6), r);
  const hn::RebindToSigned<D> di;
  const V power = hn::BitCast(d, hn::ShiftLeft<Bits::kMantissa>(hn::BitCast(di, shifted)));
  const V y = exp2_of_fraction(d, hn::Mul(r, c(1.4426950408889634)), power);
  return hn::IfThenZeroElse(hn::Lt(x, c(kFloat ? -87.33654 : -708.3964)), y);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_SIMD_EXP_INL_H_
