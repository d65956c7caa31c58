// Products of matrices that fit into the caches, for every target. Compiled once, in product.cc. Included once per
// target.
#if defined(HEED_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PRODUCT_INL_H_
#undef HEED_ATTENTION_PRODUCT_INL_H_
#else
#define HEED_ATTENTION_PRODUCT_INL_H_
#endif

#include <cstdint>
#include <type_traits>

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

// Columns that a product's registers hold.
template <class T>
inline constexpr int64_t kPanel = kMaxVecs* lanes<T>();
template <class T>
constexpr int64_t panel_columns(int64_t columns) {
  return (columns + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
}
// Whether those are few, as with 16 registers. A panel's rows fall on as many sets of the first-level cache as stride
// and size allow, 64 of 256 bytes on 16 and 64 of 512 bytes on 8: more than that leave no room there for the other
// operands.
template <class T>
inline constexpr bool kNarrow = kPanel<T> * sizeof(T) < 256;

// B (depth, columns) as panels of kPanel columns, which stand side by side or, packed, one after another.
template <class T>
struct Panels {
  const T* data = nullptr;
  int64_t stride = 0, panel = 0;  // from a row to the next, from a panel to the next

  Panels() = default;
  HWY_INLINE Panels(Matrix<const T> matrix) : data(matrix.data), stride(matrix.stride), panel(kPanel<T>) {}
  HWY_INLINE static Panels packed(const T* data, int64_t depth) { return {data, kPanel<T>, depth * kPanel<T>}; }
  /// From a row and a column on, as far as that column's panel goes.
  HWY_INLINE Matrix<const T> matrix(int64_t row, int64_t column) const {
    return {data + row * stride + column / kPanel<T> * panel + column % kPanel<T>, stride};
  }
  HWY_INLINE T at(int64_t row, int64_t column) const { return *matrix(row, column).data; }
  HWY_INLINE Panels from(int64_t row, int64_t column) const { return {matrix(row, column).data, stride, panel}; }

 private:
  HWY_INLINE Panels(const T* from, int64_t row, int64_t next) : data(from), stride(row), panel(next) {}
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
  for (; columns >= kPanel<T>; columns -= kPanel<T>) {
    product_rows<kMaxVecs>(rows, a, b, c, depth, add);
    b = b.from(0, kPanel<T>);
    c = c.from(0, kPanel<T>);
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

// The same with B in panels.
template <class T, bool kRowMajor>
HWY_INLINE void product(int64_t rows, int64_t columns, int64_t depth, Left<T, kRowMajor> a,
                        std::type_identity_t<Panels<T>> b, Matrix<T> c, bool add) {
  if (!kNarrow<T> || b.panel == kPanel<T>) return product(rows, columns, depth, a, b.matrix(0, 0), c, add);
  for (int64_t j = 0; j < columns; j += kPanel<T>)
    product(rows, HWY_MIN(columns - j, kPanel<T>), depth, a, b.matrix(0, j), c.from(0, j), add);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_PRODUCT_INL_H_
