// Products with a right operand that was packed once and is used by many tiles of rows, for every target. Included once
// per target.
#if defined(HEED_KERNELS_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PACKED_INL_H_
#undef HEED_KERNELS_PACKED_INL_H_
#else
#define HEED_KERNELS_PACKED_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "heed/executor.h"
#include "kernels/scratch.h"
#include "simd/product-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Sums of kTileRows x kTileVecs vectors, plus a row of the panel and one broadcast, fill the registers.
constexpr int kTileRows = HWY_MAX_BYTES == 64 ? 8 : 6;
constexpr int kTileVecs = HWY_MAX_BYTES == 64 ? 3 : HWY_ARCH_ARM_A64 ? 4 : 2;

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

// C (kRows, width) = A (kRows, depth) times the first kVecs vectors of one panel, which hold the width.
template <int kRows, int kVecs, bool kByRow, class T>
HWY_NOINLINE void TileProductOf(Left<T, kByRow> a, const T* HWY_RESTRICT panel, int64_t depth, T* c, int64_t ldc,
                                int64_t width, Finish<T> finish) {
  const Lanes<T> d;
  // The last panel of C goes by way of a copy.
  constexpr int64_t kWidth = kVecs * lanes<T>();
  const bool whole = width == kWidth, add = finish.add, relu = finish.relu;
  HWY_ALIGN T copy[kRows * kWidth], last_bias[kWidth] = {};
  if (HWY_UNLIKELY(!whole)) {
    for (int r = 0; add && r < kRows; ++r) std::copy(c + r * ldc, c + r * ldc + width, copy + r * kWidth);
    if (finish.bias) std::copy(finish.bias, finish.bias + width, last_bias);
  }
  T* const to = whole ? c : copy;
  const int64_t to_stride = whole ? ldc : kWidth;
  const T* const bias = finish.bias && !whole ? last_bias : finish.bias;
  for (int r = 0; add && whole && r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) hwy::Prefetch(c + r * ldc + v * lanes<T>());
  product_tile<kRows, kVecs>(a, panel, PanelWidth<T>(), depth, [&](auto r, auto v, Vec<T> y) HWY_ATTR {
    T* const at = to + r * to_stride + v * lanes<T>();
    if (add) y = hn::Add(y, hn::LoadU(d, at));
    if (bias) y = hn::Add(y, hn::LoadU(d, bias + v * lanes<T>()));
    if (relu) y = hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), y);  // NaN stays
    hn::StoreU(y, d, at);
  });
  for (int r = 0; !whole && r < kRows; ++r) std::copy(copy + r * kWidth, copy + r * kWidth + width, c + r * ldc);
}

// The same with as many vectors as the width needs: a matrix of 128 columns has a third panel with 32 of 48.
template <int kRows, bool kByRow, class T>
HWY_INLINE void TileProduct(Left<T, kByRow> a, const T* HWY_RESTRICT panel, int64_t depth, T* c, int64_t ldc,
                            int64_t width, Finish<T> finish) {
  if constexpr (kRows == kTileRows && kTileVecs == 3) {
    if (width <= lanes<T>()) return TileProductOf<kRows, 1>(a, panel, depth, c, ldc, width, finish);
    if (width <= 2 * lanes<T>()) return TileProductOf<kRows, 2>(a, panel, depth, c, ldc, width, finish);
  }
  TileProductOf<kRows, kTileVecs>(a, panel, depth, c, ldc, width, finish);
}

// Of products at a time: a panel of it stays in the first-level cache, a block of rows in the second.
constexpr int64_t kBlockDepth = 256;

/// C (rows, columns) = A (rows, depth) B (depth, columns), B packed with `packed_depth` >= depth rows a panel. A's
/// rows are `stride` apart where kByRow, else its columns (a row of depth is).
template <bool kByRow, class T>
void PackedProduct(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t stride, const T* packed,
                   int64_t packed_depth, T* c, int64_t ldc, Finish<T> finish) {
  // Rows of A far apart fall on the same sets of the first-level cache, so tiles of them are turned into columns first,
  // (depth, kTileRows) each, where enough panels use them.
  const int64_t tiled = kByRow && columns >= 4 * PanelWidth<T>() ? rows / kTileRows * kTileRows : 0;
  std::optional<ScratchArray<T>> tiles;
  if (tiled > 0) tiles.emplace(tiled * std::min(kBlockDepth, depth));
  for (int64_t from = 0; from < depth || from == 0; from += kBlockDepth) {
    const int64_t length = std::min(kBlockDepth, depth - from);
    const bool last = from + length >= depth;
    for (int64_t row = 0; row < tiled; row += kTileRows)
      transpose<false>(kTileRows, length, a + row * stride + from, stride, T{1}, tiles->get() + row * length,
                       kTileRows);
    for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
      const T* const panel = packed + column * packed_depth + from * PanelWidth<T>();
      const int64_t width = std::min(PanelWidth<T>(), columns - column);
      const Finish<T> end{finish.add || from > 0, last && finish.bias ? finish.bias + column : nullptr,
                          last && finish.relu};
      T* to = c + column;
      for (int64_t row = 0; row < tiled; row += kTileRows, to += kTileRows * ldc)
        TileProduct<kTileRows>(Left<T, false>{tiles->get() + row * length, kTileRows}, panel, length, to, ldc, width,
                               end);
      Left<T, kByRow> left = Left<T, kByRow>{a, stride}.from(tiled, from);
      int64_t left_rows = rows - tiled;
      const auto rest = [&](auto count) HWY_ATTR {
        for (; left_rows >= count; left_rows -= count) {
          TileProduct<count()>(left, panel, length, to, ldc, width, end);
          left = left.from(count, 0);
          to += count * ldc;
        }
      };
      rest(std::integral_constant<int, kTileRows>());
      rest(std::integral_constant<int, 3>());
      rest(std::integral_constant<int, 1>());
    }
  }
}

/// C (rows, columns) = A (rows, depth) B (depth, columns), both packed a piece at a time, right before it is used:
/// pack_left(row, rows <= kTileRows, from, length, to) writes (length, kTileRows),
/// panels.pack(column, width <= PanelWidth, from, length, to) writes (length, PanelWidth), zeros past the width.
template <class T, class PackLeft, class Panels>
void BlockedProduct(int64_t rows, int64_t columns, int64_t depth, const PackLeft& pack_left, const Panels& panels, T* c,
                    int64_t ldc, Finish<T> finish) {
  const int64_t most = std::min(kBlockDepth, depth);
  const ScratchArray<T> left((rows + kTileRows - 1) / kTileRows * kTileRows * most), panel(PanelWidth<T>() * most);
  for (int64_t from = 0; from < depth || from == 0; from += kBlockDepth) {
    const int64_t length = std::min(kBlockDepth, depth - from);
    const bool last = from + length >= depth;
    for (int64_t row = 0; row < rows; row += kTileRows)
      pack_left(row, std::min<int64_t>(kTileRows, rows - row), from, length, left.get() + row * length);
    for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
      const int64_t width = std::min(PanelWidth<T>(), columns - column);
      panels.pack(column, width, from, length, panel.get());
      const Finish<T> end{finish.add || from > 0, last && finish.bias ? finish.bias + column : nullptr,
                          last && finish.relu};
      T* to = c + column;
      int64_t row = 0;
      const auto tiles = [&](auto count) HWY_ATTR {
        for (; rows - row >= count; row += count, to += count * ldc) {
          const int64_t tile = row / kTileRows * kTileRows;
          TileProduct<count()>(Left<T, false>{left.get() + tile * length + row - tile, kTileRows}, panel.get(), length,
                               to, ldc, width, end);
        }
      };
      tiles(std::integral_constant<int, kTileRows>());
      tiles(std::integral_constant<int, 3>());
      tiles(std::integral_constant<int, 1>());
    }
  }
}

/// pack_left of a matrix whose rows are `stride` apart, and of one whose columns (rows of depth) are.
template <class T>
auto LeftByRow(const T* a, int64_t stride) {
  return [=](int64_t row, int64_t rows, int64_t from, int64_t length, T* to)
             HWY_ATTR { transpose<false>(rows, length, a + row * stride + from, stride, T{1}, to, kTileRows); };
}
template <class T>
auto LeftByColumn(const T* a, int64_t stride) {
  return [=](int64_t row, int64_t rows, int64_t from, int64_t length, T* to) HWY_ATTR {
    const T* at = a + from * stride + row;
    for (int64_t t = 0; t < length; ++t, at += stride, to += kTileRows) std::copy_n(at, rows, to);
  };
}

/// Panels of a matrix (depth, columns) whose rows are `stride` apart.
template <class T>
struct PanelsByRow {
  const T* b;
  int64_t stride;
  void pack(int64_t column, int64_t width, int64_t from, int64_t length, T* HWY_RESTRICT to) const {
    const Lanes<T> d;
    const T* at = b + from * stride + column;
    for (int64_t t = 0; t < length; ++t, at += stride, to += PanelWidth<T>()) {
      if (width == PanelWidth<T>()) {
        for (int64_t j = 0; j < PanelWidth<T>(); j += lanes<T>()) hn::StoreU(hn::LoadU(d, at + j), d, to + j);
      } else {
        std::copy_n(at, width, to);
        std::fill(to + width, to + PanelWidth<T>(), T{0});
      }
    }
  }
};

/// Panels of the transpose of a matrix (columns, depth) whose rows are `stride` apart and kept as W.
template <class T, class W>
struct PanelsByColumn {
  const W* b;
  int64_t stride;
  void pack(int64_t column, int64_t width, int64_t from, int64_t length, T* HWY_RESTRICT to) const {
    if (width < PanelWidth<T>()) std::fill_n(to, length * PanelWidth<T>(), T{0});
    constexpr int64_t kBlock = 64;  // elements of a row at a time
    HWY_ALIGN T wide[std::is_same_v<T, W> ? 1 : PanelWidth<T>() * kBlock];
    for (int64_t t = 0; t < length; t += kBlock, to += kBlock * PanelWidth<T>()) {
      const W* const at = b + column * stride + from + t;
      const int64_t n = std::min(kBlock, length - t);
      if constexpr (std::is_same_v<T, W>) {
        transpose<false>(width, n, at, stride, T{1}, to, PanelWidth<T>());
      } else {
        for (int64_t j = 0; j < width; ++j) widen(at + j * stride, n, wide + j * kBlock);
        transpose<false>(width, n, wide, kBlock, T{1}, to, PanelWidth<T>());
      }
    }
  }
};

/// f(first row, rows, first column, columns) for blocks of C. Any cut gives the same bits.
template <class T, class F>
void ForBlocks(int64_t rows, int64_t columns, Executor& ex, F&& f) {
  constexpr int64_t kRows = 384;  // whose piece of A stays in the second-level cache; each packs all panels once more
  constexpr int64_t kColumns = 256;  // at least: each packs all of A's rows once more
  const int64_t threads = ex.threads(), down = std::max<int64_t>(1, (rows + kRows - 1) / kRows);
  const int64_t wanted = threads == 1 ? 1 : (4 * threads + down - 1) / down;
  const int64_t across = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, columns / kColumns));
  const auto part = [](int64_t n, int64_t parts, int64_t step) {
    return std::max((n + parts - 1) / parts + step - 1, step) / step * step;
  };
  const int64_t height = part(rows, down, kTileRows), width = part(columns, across, PanelWidth<T>());
  parallel_for(ex, down * across, [&](int64_t block) {
    const int64_t row = block / across * height, column = block % across * width;
    if (row < rows && column < columns) f(row, std::min(height, rows - row), column, std::min(width, columns - column));
  });
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
  constexpr int64_t kBlock = 64;  // elements of a row at a time: a panel's part stays in the first-level cache
  for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
    T* const to = packed + column * depth;
    const int64_t width = std::min(PanelWidth<T>(), columns - column);
    if (width < PanelWidth<T>()) std::fill_n(to, depth * PanelWidth<T>(), T{0});
    for (int64_t t = 0; t < depth; t += kBlock)
      transpose<false>(width, std::min(kBlock, depth - t), from + column * stride + t, stride, T{1},
                       to + t * PanelWidth<T>(), PanelWidth<T>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
