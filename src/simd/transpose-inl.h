// Rows turned into columns, for every target. Included once per target.
#if defined(HEED_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_TRANSPOSE_INL_H_
#undef HEED_SIMD_TRANSPOSE_INL_H_
#else
#define HEED_SIMD_TRANSPOSE_INL_H_
#endif

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

/// to[j * to_stride + i] = factor * from[i * from_stride + j] for i < rows, j < width. With kPad, columns rows ..
/// round_to_lanes(rows) of `to` become 0.
template <bool kPad, class T>
HWY_INLINE void transpose(int64_t rows, int64_t width, const T* HWY_RESTRICT from, int64_t from_stride, T factor,
                          T* HWY_RESTRICT to, int64_t to_stride) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // Blocks of 128 bits: every target has the two interleaves that turn them.
  const hn::Full128<T> d;
  constexpr int64_t kBlock = 16 / sizeof(T);
  const auto scale = hn::Set(d, factor);
  const auto load = [&](int64_t row, int64_t j) HWY_ATTR {
    return row < rows ? hn::Mul(scale, hn::LoadU(d, from + row * from_stride + j)) : hn::Zero(d);
  };
  const int64_t end = kPad ? round_to_lanes<T>(rows) : rows / kBlock * kBlock;
  for (; i < end; i += kBlock) {
    T* out = to + i;
    int64_t j = 0;
    for (; j + kBlock <= width; j += kBlock) {
      const auto a = load(i, j), b = load(i + 1, j);
      if constexpr (sizeof(T) == 8) {
        hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + to_stride);
      } else {
        const auto e = load(i + 2, j), f = load(i + 3, j);
        const auto ae = hn::InterleaveLower(d, a, e), bf = hn::InterleaveLower(d, b, f);
        const auto ae_upper = hn::InterleaveUpper(d, a, e), bf_upper = hn::InterleaveUpper(d, b, f);
        hn::StoreU(hn::InterleaveLower(d, ae, bf), d, out);
        hn::StoreU(hn::InterleaveUpper(d, ae, bf), d, out + to_stride);
        hn::StoreU(hn::InterleaveLower(d, ae_upper, bf_upper), d, out + 2 * to_stride);
        hn::StoreU(hn::InterleaveUpper(d, ae_upper, bf_upper), d, out + 3 * to_stride);
      }
      out += kBlock * to_stride;
    }
    for (; j < width; ++j, out += to_stride)
      for (int64_t r = 0; r < kBlock; ++r) out[r] = i + r < rows ? factor * from[(i + r) * from_stride + j] : T{0};
  }
#endif
  for (; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) to[j * to_stride + i] = factor * from[i * from_stride + j];
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_SIMD_TRANSPOSE_INL_H_
