// Products of matrices whose right operand is packed in panels, once for many calls or a piece at a time right before
// it is used, for every target. Included once per target.
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
#include "simd/quantised-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Sums of kTileRows x kTileVecs vectors, plus a row of the panel and one broadcast, fill the registers.
constexpr int kTileRows = HWY_MAX_BYTES == 64 ? 8 : HWY_ARCH_WASM ? 4 : 6;
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

/// A right operand (depth, columns) that was packed as a whole, every panel with `depth` rows.
template <class T>
struct PackedPanels {
  const T* packed;
  int64_t depth;
  static constexpr bool kPacks = false;
  const T* panel(int64_t column, int64_t /*width*/, int64_t from, int64_t /*length*/, T* /*room*/) const {
    return packed + column * depth + from * PanelWidth<T>();
  }
};

/// One whose rows are `stride` apart, each to be multiplied by its factor where there are any. panel() packs rows
/// [from, from + length) of at most kWidth columns into `room`, with zeros past the width.
template <class T, int64_t kWidth = PanelWidth<T>()>
struct PanelsByRow {
  const T* b;
  int64_t stride;
  const T* factors = nullptr;
  static constexpr bool kPacks = true;
  const T* panel(int64_t column, int64_t width, int64_t from, int64_t length, T* HWY_RESTRICT room) const {
    const Lanes<T> d;
    const T* at = b + from * stride + column;
    T* to = room;
    for (int64_t t = 0; t < length; ++t, at += stride, to += kWidth) {
      const T factor = factors ? factors[from + t] : T{1};
      if (width == kWidth) {
        const auto scale = hn::Set(d, factor);
        for (int64_t j = 0; j < kWidth; j += lanes<T>()) hn::StoreU(hn::Mul(scale, hn::LoadU(d, at + j)), d, to + j);
      } else {
        for (int64_t j = 0; j < kWidth; ++j) to[j] = j < width ? factor * at[j] : T{0};
      }
    }
    return room;
  }
};

/// Likewise the transpose of a matrix (columns, depth) whose rows are `stride` apart: `Weights` points to them, or is
/// Quantised.
template <class T, class Weights, int64_t kWidth = PanelWidth<T>()>
struct PanelsByColumn {
  Weights b;
  int64_t stride;
  static constexpr bool kPacks = true;
  const T* panel(int64_t column, int64_t width, int64_t from, int64_t length, T* HWY_RESTRICT room) const {
    if (width < kWidth) std::fill_n(room, length * kWidth, T{0});
    constexpr int64_t kBlock = 64;  // elements of a row at a time
    constexpr bool kAsItIs = std::is_same_v<const T*, Weights>;
    HWY_ALIGN T wide[kAsItIs ? 1 : kWidth * kBlock];
    T* to = room;
    for (int64_t t = 0; t < length; t += kBlock, to += kBlock * kWidth) {
      const auto at = element(b, column * stride + from + t);
      const int64_t n = std::min(kBlock, length - t);
      if constexpr (kAsItIs) {
        transpose<false>(width, n, at, stride, T{1}, to, kWidth);
      } else {
        for (int64_t j = 0; j < width; ++j) widen(element(at, j * stride), n, wide + j * kBlock);
        transpose<false>(width, n, wide, kBlock, T{1}, to, kWidth);
      }
    }
    return room;
  }
  // Asks for the rows of part `part` of `parts` of a panel: they lie too far apart for the hardware to guess.
  void prefetch(int64_t column, int64_t width, int64_t from, int64_t length, int64_t part, int64_t parts) const {
    for (int64_t j = width * part / parts; j < width * (part + 1) / parts; ++j) {
      const auto row = element(b, (column + j) * stride + from);
      if constexpr (std::is_same_v<Weights, Quantised>) {
        constexpr int64_t kLine = 64;  // numbers: blocks have at most a byte for each, and a little
        for (int64_t t = 0; t < length; t += kLine) __builtin_prefetch(element(row, t).block(), 0, 2);
      } else {
        constexpr auto kLine = static_cast<int64_t>(64 / sizeof(*row));
        for (int64_t t = 0; t < length; t += kLine) __builtin_prefetch(row + t, 0, 2);  // into the second-level cache
      }
    }
  }
};

/// Packs a right operand as a whole. A few rows at a time: going down a panel would meet a new page at every step.
template <class T, class Right>
void Pack(const Right& right, int64_t depth, int64_t columns, T* packed) {
  constexpr int64_t kRows = 32;
  for (int64_t from = 0; from < depth; from += kRows)
    for (int64_t column = 0; column < columns; column += PanelWidth<T>())
      right.panel(column, std::min(PanelWidth<T>(), columns - column), from, std::min(kRows, depth - from),
                  packed + column * depth + from * PanelWidth<T>());
}

// to (depth, kTileRows) = a tile of the left operand.
template <class T>
HWY_INLINE void PackTile(Left<T, true> a, int64_t depth, T* to) {
  transpose<false>(kTileRows, depth, a.data, a.stride, T{1}, to, kTileRows);
}
template <class T>
HWY_INLINE void PackTile(Left<T, false> a, int64_t depth, T* to) {
  for (int64_t t = 0; t < depth; ++t) std::copy_n(a.data + t * a.stride, kTileRows, to + t * kTileRows);
}

// Of products at a time: a panel of it stays in the first-level cache, a block of rows in the second.
constexpr int64_t kBlockDepth = 256;

/// C (rows, columns) = A (rows, depth) B (depth, columns), B as one of the panels above.
template <class T, bool kByRow, class Right>
void Product(int64_t rows, int64_t columns, int64_t depth, Left<T, kByRow> a, const Right& right, T* c, int64_t ldc,
             Finish<T> finish) {
  // Rows of A far apart fall on the same sets of the first-level cache, so where enough panels use them, tiles of them
  // are packed first.
  const int64_t tiled = columns >= 4 * PanelWidth<T>() ? rows / kTileRows * kTileRows : 0;
  const int64_t most = std::min(kBlockDepth, depth);
  const int64_t scratch_size = (tiled + (Right::kPacks ? PanelWidth<T>() : 0)) * most;
  std::optional<ScratchArray<T>> scratch;
  if (scratch_size > 0) scratch.emplace(scratch_size);
  T* const tiles = scratch ? scratch->get() : nullptr;
  T* const room = Right::kPacks ? tiles + tiled * most : nullptr;
  for (int64_t from = 0; from < depth || from == 0; from += kBlockDepth) {
    const int64_t length = std::min(kBlockDepth, depth - from);
    const bool last = from + length >= depth;
    for (int64_t row = 0; row < tiled; row += kTileRows) PackTile(a.from(row, from), length, tiles + row * length);
    for (int64_t column = 0; column < columns; column += PanelWidth<T>()) {
      const int64_t width = std::min(PanelWidth<T>(), columns - column);
      const T* const panel = right.panel(column, width, from, length, room);
      const Finish<T> end{finish.add || from > 0, last && finish.bias ? finish.bias + column : nullptr,
                          last && finish.relu};
      T* to = c + column;
      const int64_t next = column + width, next_width = std::min(PanelWidth<T>(), columns - next);
      int64_t row = 0;
      for (; row < tiled; row += kTileRows, to += kTileRows * ldc) {
        if constexpr (requires { &Right::prefetch; })
          right.prefetch(next, next_width, from, length, row / kTileRows, tiled / kTileRows);
        TileProduct<kTileRows>(Left<T, false>{tiles + row * length, kTileRows}, panel, length, to, ldc, width, end);
      }
      const auto rest = [&](auto count) HWY_ATTR {
        for (; rows - row >= count; row += count, to += count * ldc)
          TileProduct<count()>(a.from(row, from), panel, length, to, ldc, width, end);
      };
      rest(std::integral_constant<int, kTileRows>());
      rest(std::integral_constant<int, 3>());
      rest(std::integral_constant<int, 1>());
    }
  }
}

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

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
