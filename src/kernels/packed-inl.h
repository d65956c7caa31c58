// Products with a right operand that was packed once and is used by many tiles of rows, for every target. Included once
// per target.
#if defined(HEED_KERNELS_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PACKED_INL_H_
#undef HEED_KERNELS_PACKED_INL_H_
#else
#define HEED_KERNELS_PACKED_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Sums of kTileRows x kTileVecs vectors, plus a row of the panel and one broadcast, fill the registers.
constexpr int kTileRows = HWY_MAX_BYTES == 64 ? 12 : 6;
constexpr int kTileVecs = HWY_ARCH_ARM_A64 ? 4 : 2;

/// Columns of a panel. Packed columns lie panel after panel, each (depth, PanelWidth), zeros past the last column.
template <class T>
constexpr int64_t PanelWidth() {
  return kTileVecs * lanes<T>();
}
template <class T>
constexpr int64_t PackedColumns(int64_t columns) {
  return (columns + PanelWidth<T>() - 1) / PanelWidth<T>() * PanelWidth<T>();
}

// What happens to a finished sum: += what C holds, then the bias of its column, then max(0, .).
template <class T>
struct Finish {
  bool add = false;
  const T* bias = nullptr;
  bool relu = false;
};

// C (kRows, width) = A (kRows, depth) times one panel.
template <int kRows, bool kByRow, class T>
HWY_NOINLINE void TileProduct(Left<T, kByRow> a, const T* HWY_RESTRICT panel, int64_t depth, T* c, int64_t ldc,
                              int64_t width, Finish<T> finish) {
  const Lanes<T> d;
  // The last panel of C goes by way of a copy.
  const bool whole = width == PanelWidth<T>(), add = finish.add, relu = finish.relu;
  HWY_ALIGN T copy[kRows * PanelWidth<T>()], last_bias[PanelWidth<T>()] = {};
  if (HWY_UNLIKELY(!whole)) {
    for (int r = 0; add && r < kRows; ++r) std::copy(c + r * ldc, c + r * ldc + width, copy + r * PanelWidth<T>());
    if (finish.bias) std::copy(finish.bias, finish.bias + width, last_bias);
  }
  T* const to = whole ? c : copy;
  const int64_t to_stride = whole ? ldc : PanelWidth<T>();
  const T* const bias = finish.bias && !whole ? last_bias : finish.bias;
  product_tile<kRows, kTileVecs>(a, panel, PanelWidth<T>(), depth, [&](auto r, auto v, Vec<T> y) HWY_ATTR {
    T* const at = to + r * to_stride + v * lanes<T>();
    if (add) y = hn::Add(y, hn::LoadU(d, at));
    if (bias) y = hn::Add(y, hn::LoadU(d, bias + v * lanes<T>()));
    if (relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);  // NaN stays
    hn::StoreU(y, d, at);
  });
  for (int r = 0; !whole && r < kRows; ++r)
    std::copy(copy + r * PanelWidth<T>(), copy + r * PanelWidth<T>() + width, c + r * ldc);
}

/// C (rows, columns) = A (rows, depth) B (depth, columns), B packed with `packed_depth` >= depth rows a panel. A's
/// rows are `stride` apart where kByRow, else its columns (a row of depth is).
template <bool kByRow, class T>
void PackedProduct(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t stride, const T* packed,
                   int64_t packed_depth, T* c, int64_t ldc, Finish<T> finish) {
  constexpr int64_t kDepth = 512;  // of A at a time: a panel that the second-level cache holds beside A's rows
  for (int64_t from = 0; from < depth || from == 0; from += kDepth) {
    const int64_t length = std::min(kDepth, depth - from);
    const bool last = from + length >= depth;
    for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
      const T* const panel = packed + column * packed_depth + from * PanelWidth<T>();
      const int64_t width = std::min(PanelWidth<T>(), columns - column);
      const Finish<T> end{finish.add || from > 0, last && finish.bias ? finish.bias + column : nullptr,
                          last && finish.relu};
      Left<T, kByRow> left = Left<T, kByRow>{a, stride}.from(0, from);
      T* to = c + column;
      int64_t left_rows = rows;
      const auto tiles = [&](auto count) HWY_ATTR {
        for (; left_rows >= count; left_rows -= count) {
          TileProduct<count()>(left, panel, length, to, ldc, width, end);
          left = left.from(count, 0);
          to += count * ldc;
        }
      };
      tiles(std::integral_constant<int, kTileRows>());
      tiles(std::integral_constant<int, 3>());
      tiles(std::integral_constant<int, 1>());
    }
  }
}

/// Packs B (depth, columns), rows `stride` apart, each times its factor where there are any. Row by row: going down a
/// panel would meet a new page at every step.
template <class T>
void PackRows(const T* HWY_RESTRICT from, int64_t stride, const T* factors, int64_t depth, int64_t columns,
              T* HWY_RESTRICT packed) {
  const Lanes<T> d;
  const int64_t whole = columns / PanelWidth<T>() * PanelWidth<T>();
  for (int64_t t = 0; t < depth; ++t) {
    const T* const row = from + t * stride;
    const T factor = factors ? factors[t] : T{1};
    const auto scale = hn::Set(d, factor);
    T* to = packed + t * PanelWidth<T>();
    for (int64_t column = 0; column < whole; column += PanelWidth<T>(), to += depth * PanelWidth<T>())
      for (int64_t j = 0; j < PanelWidth<T>(); j += lanes<T>())
        hn::StoreU(hn::Mul(scale, hn::LoadU(d, row + column + j)), d, to + j);
    for (int64_t j = whole; whole < columns && j < whole + PanelWidth<T>(); ++j)
      to[j - whole] = j < columns ? factor * row[j] : T{0};
  }
}

/// Packs B (depth, columns) from its transpose, whose rows (columns of B) are `stride` apart.
template <class T>
void PackTransposed(const T* HWY_RESTRICT from, int64_t stride, int64_t depth, int64_t columns,
                    T* HWY_RESTRICT packed) {
  for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
    T* const to = packed + column * depth;
    const int64_t width = std::min(PanelWidth<T>(), columns - column);
    constexpr int64_t kBlock = 16;  // elements of a row at a time: a cache line is read once
    for (int64_t t = 0; t < depth; t += kBlock)
      for (int64_t j = 0; j < PanelWidth<T>(); ++j)
        for (int64_t i = t; i < std::min(depth, t + kBlock); ++i)
          to[i * PanelWidth<T>() + j] = j < width ? from[(column + j) * stride + i] : T{0};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
