// Products of matrices that fit into the caches, for every target. Compiled once, in product.cc. Included once per
// target.
#if defined(HEED_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PRODUCT_INL_H_
#undef HEED_ATTENTION_PRODUCT_INL_H_
#else
#define HEED_ATTENTION_PRODUCT_INL_H_
#endif

#include <cstdint>

#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Accumulators kMaxRows x kMaxVecs, plus a row of B and one broadcast, fill the registers.
constexpr int kMaxRows = 6;
constexpr int kMaxVecs = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;

// B (depth, columns) and C (rows, columns), read and written by whole vectors.
template <class T>
struct Matrix {
  T* data;
  int64_t stride;
  HWY_INLINE Matrix from(int64_t row, int64_t column) const { return {data + row * stride + column, stride}; }
  HWY_INLINE T* row(int64_t i) const { return data + i * stride; }
};

template <int kRows, int kVecs, class T, bool kRowMajor>
HWY_NOINLINE void product_kernel(Left<T, kRowMajor> a, Matrix<const T> b, Matrix<T> c, int64_t depth, bool add) {
  const Lanes<T> d;
  // Sums of what is there and of sums: rounded less than one long sum.
  product_tile<kRows, kVecs>(a, b.data, b.stride, depth, [&](auto r, auto v, Vec<T> sum) HWY_ATTR {
    T* const to = c.row(r) + v * lanes<T>();
    hn::StoreU(add ? hn::Add(sum, hn::LoadU(d, to)) : sum, d, to);
  });
}

template <int kVecs, class T, bool kRowMajor>
HWY_INLINE void product_rows(int64_t rows, Left<T, kRowMajor> a, Matrix<const T> b, Matrix<T> c, int64_t depth,
                             bool add) {
  for (; rows >= kMaxRows; rows -= kMaxRows) {
    product_kernel<kMaxRows, kVecs>(a, b, c, depth, add);
    a = a.from(kMaxRows, 0);
    c = c.from(kMaxRows, 0);
  }
  switch (rows) {
    case 5:
      return product_kernel<5, kVecs>(a, b, c, depth, add);
    case 4:
      return product_kernel<4, kVecs>(a, b, c, depth, add);
    case 3:
      return product_kernel<3, kVecs>(a, b, c, depth, add);
    case 2:
      return product_kernel<2, kVecs>(a, b, c, depth, add);
    case 1:
      return product_kernel<1, kVecs>(a, b, c, depth, add);
  }
}

// C (rows, columns) = or += A (rows, depth) B (depth, columns); columns is a multiple of the lanes.
template <class T, bool kRowMajor>
HWY_NOINLINE void product(int64_t rows, int64_t columns, int64_t depth, Left<T, kRowMajor> a, Matrix<const T> b,
                          Matrix<T> c, bool add) {
  constexpr int64_t kWide = kMaxVecs * lanes<T>();
  for (; columns >= kWide; columns -= kWide) {
    product_rows<kMaxVecs>(rows, a, b, c, depth, add);
    b = b.from(0, kWide);
    c = c.from(0, kWide);
  }
  switch (columns / lanes<T>()) {
    case 3:
      return product_rows<HWY_MIN(3, kMaxVecs)>(rows, a, b, c, depth, add);
    case 2:
      return product_rows<HWY_MIN(2, kMaxVecs)>(rows, a, b, c, depth, add);
    case 1:
      return product_rows<1>(rows, a, b, c, depth, add);
  }
}

extern template void product(int64_t, int64_t, int64_t, Left<float, true>, Matrix<const float>, Matrix<float>, bool);
extern template void product(int64_t, int64_t, int64_t, Left<float, false>, Matrix<const float>, Matrix<float>, bool);
extern template void product(int64_t, int64_t, int64_t, Left<double, true>, Matrix<const double>, Matrix<double>, bool);
extern template void product(int64_t, int64_t, int64_t, Left<double, false>, Matrix<const double>, Matrix<double>,
                             bool);

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_PRODUCT_INL_H_
