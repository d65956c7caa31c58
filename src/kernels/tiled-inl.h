// Products of matrices of float on the matrix unit, where the processor has one (simd/matrix_tiles.h), for every
// target. Included once per target.
#if defined(HEED_KERNELS_TILED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TILED_INL_H_
#undef HEED_KERNELS_TILED_INL_H_
#else
#define HEED_KERNELS_TILED_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "heed/executor.h"
#include "kernels/packed-inl.h"
#include "kernels/scratch.h"
#include "simd/matrix_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

/// Whether products of T may run on the unit: with the target whose vectors every processor with one has.
template <class T>
constexpr bool kTiled = kMatrixTiles&& HWY_TARGET == HWY_AVX3&& std::is_same_v<T, float>;

/// Pieces of bfloat16 that a weight has, as it is kept.
template <class Weights>
constexpr int kPiecesOf = std::is_same_v<Weights, const hwy::bfloat16_t*>  ? 1
                          : std::is_same_v<Weights, const hwy::float16_t*> ? 2
                                                                           : kTilePieces;

/// C (rows, columns) = A (rows, depth) B (depth, columns), B as panels of kTilePanel columns. False where a number does
/// not fit: C is then not finished.
template <bool kByRow, class Right>
bool TiledProduct(int64_t rows, int64_t columns, int64_t depth, Left<float, kByRow> a, const Right& right, int pieces,
                  float* c, int64_t ldc, Finish<float> finish) {
  const MatrixTiles tiles;
  const ScratchArray<uint16_t> left(left_at(rows, std::min(depth, kTileDepth))),
      split(right_at(columns, std::min(depth, kTileDepth), pieces));
  const ScratchArray<float> room(kTilePanel * kTileDepth), turned(kByRow ? 0 : kTileEdge * kTileDepth);
  for (int64_t from = 0; from < depth || from == 0; from += kTileDepth) {
    const int64_t length = std::min(kTileDepth, depth - from);
    const bool last = from + length >= depth;
    if constexpr (kByRow) {
      if (!tile_left(a.from(0, from).data, a.stride, rows, length, left.get())) return false;
    } else {
      for (int64_t row = 0; row < rows; row += kTileEdge) {
        const int64_t count = std::min(kTileEdge, rows - row);
        transpose<false>(length, count, a.from(row, from).data, a.stride, 1.0F, turned.get(), kTileDepth);
        if (!tile_left(turned.get(), kTileDepth, count, length, left.get() + left_at(row, length))) return false;
      }
    }
    for (int64_t column = 0; column < columns; column += kTilePanel) {
      const int64_t width = std::min(kTilePanel, columns - column);
      const float* const panel = right.panel(column, width, from, length, room.get());
      if (!tile_right(panel, length, pieces, split.get() + right_at(column, length, pieces))) return false;
    }
    tile_product(left.get(), split.get(), rows, columns, length, pieces, c, ldc,
                 {finish.add || from > 0, last ? finish.bias : nullptr, last && finish.relu});
  }
  return true;
}

/// f(first row, rows, first column, columns) for blocks of C, until one says false; whether none did. Any cut gives the
/// same bits.
template <class F>
bool ForTiledBlocks(int64_t rows, int64_t columns, Executor& ex, F&& f) {
  constexpr int64_t kMost = 1024;  // rows and columns, whose pieces stay in the second-level cache
  constexpr int64_t kLeast = 64;   // rows or columns: the other operand is split once more for each block
  const auto part = [](int64_t n, int64_t parts) {
    return std::max<int64_t>((n + parts - 1) / parts + kTilePanel - 1, kTilePanel) / kTilePanel * kTilePanel;
  };
  int64_t down = std::max<int64_t>(1, (rows + kMost - 1) / kMost);
  int64_t across = std::max<int64_t>(1, (columns + kMost - 1) / kMost);
  // As square as they can be, and as many for each thread, or so many that the rest does not matter.
  const auto enough = [&] {
    const int64_t threads = ex.threads(), blocks = down * across;
    return blocks >= threads && (blocks % threads == 0 || blocks >= 4 * threads);
  };
  while (!enough()) {
    const int64_t height = rows / (down + 1), width = columns / (across + 1);
    if (std::max(height, width) < kLeast) break;
    ++(height > width ? down : across);
  }
  const int64_t height = part(rows, down), width = part(columns, across);
  std::atomic<bool> fits{true};
  parallel_for(ex, down * across, [&](int64_t block) {
    const int64_t row = block / across * height, column = block % across * width;
    if (row >= rows || column >= columns || !fits) return;
    if (!f(row, std::min(height, rows - row), column, std::min(width, columns - column))) fits = false;
  });
  return fits;
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
