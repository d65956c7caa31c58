// Products of float32 on a processor's matrix unit, whose tiles hold bfloat16 (Intel's AMX).
//
// A float32 has 24 bits and a bfloat16 8, so that x = high + middle + low, each a bfloat16, without an error (Henry,
// Tang and Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations"). Of the nine products of two such sums six are computed, the others being below 2^-24 of the whole: as
// accurate as float32, and faster, since the unit makes sixteen products for one of a vector's
// (docs/decisions/0014-matrix-unit.md). The small ones are added up first, so that the sum rounds as often as one of
// float32 does. A weight that is kept as bfloat16 has two pieces of zeros, which change no bit and cost nothing: three
// products.
//
// What does not fit are numbers that a bfloat16 rounds to infinity: calls say so, and vectors compute them. Sums and
// pieces below 2^-126 are zero.
#pragma once

#include <cstdint>

namespace heed::inline v0 {

inline constexpr int64_t kTileEdge = 16;   // rows and columns of a tile of C
inline constexpr int64_t kTilePanel = 32;  // columns of B at a time
// Products at a time, as many as those of vectors: the pieces of 32 rows fill the first-level cache. Half was slower.
inline constexpr int64_t kTileDepth = 256;
inline constexpr int64_t kTileStep = 32;  // of them in one tile
inline constexpr int kTilePieces = 3;

// Where there may be such a unit at all.
#if defined(__x86_64__) && defined(__linux__)
inline constexpr bool kMatrixTiles = true;
#else
inline constexpr bool kMatrixTiles = false;
#endif

/// Whether this processor has one, and the system lends it to the process, which it is asked once.
bool has_matrix_tiles();
/// Whether products run on it: where there is one and HEED_MATRIX_UNIT is 1, or a test says so.
bool uses_matrix_tiles();
void use_matrix_tiles_for_test(bool use);

/// The calling thread's unit is set up while this lives.
class MatrixTiles {
 public:
  MatrixTiles();
  ~MatrixTiles();
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;
};

/// Whether a bfloat16 rounds none of n numbers to infinity.
bool tiles_hold(const float* x, int64_t n);

/// Where the pieces of a row that is a multiple of kTileEdge begin, of a left operand of `length` products; behind the
/// last row, how many numbers of 16 bits there are. Likewise of a column of a right operand.
constexpr int64_t left_at(int64_t row, int64_t length) {
  const int64_t steps = (length + kTileStep - 1) / kTileStep;
  return (row + kTileEdge - 1) / kTileEdge * kTileEdge * steps * kTileStep * kTilePieces;
}
constexpr int64_t right_at(int64_t column, int64_t length, int pieces) {
  const int64_t steps = (length + kTileStep - 1) / kTileStep;
  return (column + kTilePanel - 1) / kTilePanel * kTilePanel * steps * kTileStep * pieces;
}

/// Pieces of the left operand (rows, length <= kTileDepth), rows `stride` apart. False where a number does not fit.
bool tile_left(const float* a, int64_t stride, int64_t rows, int64_t length, uint16_t* to);

/// Pieces of a panel (length, kTilePanel) of the right operand; the first `pieces` of three, which
/// are all that it has.
bool tile_right(const float* panel, int64_t length, int pieces, uint16_t* to);

/// What happens to a finished sum: += what C holds, then the bias of its column, then max(0, .).
struct TileFinish {
  bool add = false;
  const float* bias = nullptr;
  bool relu = false;
};

/// C (rows, columns), rows `ldc` apart, of the two operands' pieces.
void tile_product(const uint16_t* left, const uint16_t* right, int64_t rows, int64_t columns, int64_t length,
                  int pieces, float* c, int64_t ldc, TileFinish finish);

}  // namespace heed::inline v0
