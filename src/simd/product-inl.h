// The micro-kernel of every matrix product, for every target. Included once per target.
#if defined(HEED_SIMD_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PRODUCT_INL_H_
#undef HEED_SIMD_PRODUCT_INL_H_
#else
#define HEED_SIMD_PRODUCT_INL_H_
#endif

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// A product's left operand (rows, depth), read one element at a time: kByRow says whether its depth or its rows are
// contiguous; the others are `stride` apart.
template <class T, bool kByRow>
struct Left {
  const T* data;
  int64_t stride;
  HWY_INLINE Left from(int64_t row, int64_t t) const {
    return {kByRow ? data + row * stride + t : data + t * stride + row, stride};
  }
};

/// finish(row, vector, sum) for the kRows x kVecs vectors of A (kRows, depth) B (depth, kVecs vectors), whose rows are
/// `b_stride` apart. The sums, a row of B and one broadcast are what the registers must hold.
template <int kRows, int kVecs, class T, bool kByRow, class F>
HWY_INLINE void product_tile(Left<T, kByRow> a, const T* HWY_RESTRICT b, int64_t b_stride, int64_t depth, F&& finish) {
  const Lanes<T> d;
  constexpr int kGroup = 3;  // rows that one pointer reaches: base, base + stride, base + 2 stride
  constexpr int kPointers = (kRows + kGroup - 1) / kGroup;
  Vec<T> sum[kRows][kVecs];
  unroll<kRows>([&](auto r) HWY_ATTR { unroll<kVecs>([&](auto v) HWY_ATTR { sum[r][v] = hn::Zero(d); }); });
  const T* HWY_RESTRICT column = a.data;
  const T* row[kPointers];
  unroll<kPointers>([&](auto i) HWY_ATTR { row[i] = a.data + (kByRow ? i * kGroup * a.stride : 0); });
  for (int64_t t = 0; t < depth; ++t) {
    Vec<T> right[kVecs];
    unroll<kVecs>([&](auto v) HWY_ATTR { right[v] = hn::LoadU(d, b + v * lanes<T>()); });
    unroll<kRows>([&](auto r) HWY_ATTR {
      const Vec<T> left = hn::Set(d, kByRow ? row[r / kGroup][(r % kGroup) * a.stride] : column[r]);
      unroll<kVecs>([&](auto v) HWY_ATTR { sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]); });
    });
    if constexpr (kByRow)
      unroll<kPointers>([&](auto i) HWY_ATTR { ++row[i]; });
    else
      column += a.stride;
    b += b_stride;
  }
  unroll<kRows>([&](auto r) HWY_ATTR { unroll<kVecs>([&](auto v) HWY_ATTR { finish(r, v, sum[r][v]); }); });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_SIMD_PRODUCT_INL_H_
