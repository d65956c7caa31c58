#include "simd/matrix_tiles.h"

#include <algorithm>
#include <bit>

namespace heed::inline v0 {

bool tiles_hold(const float* x, int64_t n) {
  constexpr uint32_t kFirstInfinite = 0x7F7F8000;  // half of the last place above the largest bfloat16
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF);
  return most < kFirstInfinite;
}

}  // namespace heed::inline v0

#if defined(__x86_64__) && defined(__linux__)
#ifndef __clang__  // GCC 12 warns of what its own headers leave undefined on purpose
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

// The file is compiled for any processor; these functions are called only where uses_matrix_tiles().
#define HEED_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define HEED_TILES_INLINE HEED_TILES __attribute__((always_inline)) inline

namespace heed::inline v0 {
namespace {

constexpr int64_t kTile = kTileEdge * kTileStep;  // numbers of 16 bits
constexpr int64_t kRowOfTile = 64;                // bytes

int64_t steps_of(int64_t length) { return (length + kTileStep - 1) / kTileStep; }

// Sixteen numbers as the nearest bfloat16, in the upper half of each lane.
HEED_TILES_INLINE __m512i nearest(__m512 x) {
  const auto half = (__m256i)_mm512_cvtneps_pbh(x);
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

struct Pieces {
  __m512i piece[kTilePieces];
};

// The differences are exact: each has no more bits than a float32.
HEED_TILES_INLINE Pieces pieces_of(__m512 x, __mmask16& infinite) {
  Pieces p;
  p.piece[0] = nearest(x);
  const __m512i exponent = _mm512_set1_epi32(0x7F800000);
  infinite |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(p.piece[0], exponent), exponent);
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(p.piece[0]));
  p.piece[1] = nearest(x);
  p.piece[2] = nearest(_mm512_sub_ps(x, _mm512_castsi512_ps(p.piece[1])));
  return p;
}

HEED_TILES bool split_left(const float* a, int64_t stride, int64_t rows, int64_t length, uint16_t* to) {
  const int64_t steps = steps_of(length);
  __mmask16 infinite = 0;
  for (int64_t row = 0; row < rows; row += kTileEdge, to += kTilePieces * steps * kTile)
    for (int64_t r = 0; r < kTileEdge; ++r)
      for (int64_t s = 0; s < steps; ++s) {
        // Lanes of 16 numbers are packed in the order of memory: the lower ones of both, then the upper ones.
        const auto live = [&](int64_t at) HEED_TILES -> __mmask16 {
          const int64_t left = row + r < rows ? std::clamp<int64_t>(length - at, 0, 16) : 0;
          return static_cast<__mmask16>((1U << left) - 1);
        };
        const int64_t at = s * kTileStep;
        const float* const from = a + (row + r) * stride + at;
        const Pieces first = pieces_of(_mm512_maskz_loadu_ps(live(at), from), infinite);
        const Pieces second = pieces_of(_mm512_maskz_loadu_ps(live(at + 16), from + 16), infinite);
        for (int p = 0; p < kTilePieces; ++p) {
          uint16_t* const out = to + (p * steps + s) * kTile + r * kTileStep;
          _mm256_store_si256(reinterpret_cast<__m256i*>(out),
                             _mm512_cvtepi32_epi16(_mm512_srli_epi32(first.piece[p], 16)));
          _mm256_store_si256(reinterpret_cast<__m256i*>(out + 16),
                             _mm512_cvtepi32_epi16(_mm512_srli_epi32(second.piece[p], 16)));
        }
      }
  return infinite == 0;
}

// A row of the unit's right operand has pairs: of each column the products 2 k and 2 k + 1.
template <int kPieces>
HEED_TILES bool split_right(const float* panel, int64_t length, uint16_t* to) {
  const int64_t steps = steps_of(length);
  __mmask16 infinite = 0;
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t k = 0; k < kTileEdge; ++k) {
      const int64_t at = s * kTileStep + 2 * k;
      const auto even = static_cast<__mmask16>(at < length ? -1 : 0),
                 odd = static_cast<__mmask16>(at + 1 < length ? -1 : 0);
      for (int64_t half = 0; half < 2; ++half) {
        const float* const from = panel + at * kTilePanel + half * kTileEdge;
        const Pieces first = pieces_of(_mm512_maskz_loadu_ps(even, from), infinite);
        const Pieces second = pieces_of(_mm512_maskz_loadu_ps(odd, from + kTilePanel), infinite);
        for (int p = 0; p < kPieces; ++p)
          _mm512_store_si512(to + ((p * steps + s) * 2 + half) * kTile + k * kTileStep,
                             _mm512_or_si512(_mm512_srli_epi32(first.piece[p], 16), second.piece[p]));
      }
    }
  return infinite == 0;
}

// Tiles 0 to 3 are those of C, 4 and 5 of A, 6 and 7 of B.
template <int kRowTiles>
HEED_TILES_INLINE void multiply() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (kRowTiles == 2) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}
template <int kRowTiles>
HEED_TILES_INLINE void load_left(const uint16_t* a, int64_t next) {
  _tile_loadd(4, a, kRowOfTile);
  if constexpr (kRowTiles == 2) _tile_loadd(5, a + next, kRowOfTile);
}
HEED_TILES_INLINE void load_right(const uint16_t* b) {
  _tile_loadd(6, b, kRowOfTile);
  _tile_loadd(7, b + kTile, kRowOfTile);
}

// sums (16 kRowTiles, 32).
template <int kRowTiles, int kPieces>
HEED_TILES void multiply_tiles(const uint16_t* left, const uint16_t* right, int64_t steps, float* sums) {
  const int64_t next = kTilePieces * steps * kTile;  // the tiles of the next 16 rows
  const auto a = [&](int piece, int64_t s) { return left + (piece * steps + s) * kTile; };
  const auto b = [&](int piece, int64_t s) { return right + (piece * steps + s) * 2 * kTile; };
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kRowTiles == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s) {
    if constexpr (kPieces > 1) {
      load_left<kRowTiles>(a(0, s), next);
      if constexpr (kPieces > 2) {
        load_right(b(2, s));
        multiply<kRowTiles>();
      }
      load_right(b(1, s));
      multiply<kRowTiles>();
      load_left<kRowTiles>(a(1, s), next);
      multiply<kRowTiles>();
      load_right(b(0, s));
    } else {
      load_right(b(0, s));
      load_left<kRowTiles>(a(1, s), next);
    }
    multiply<kRowTiles>();
    load_left<kRowTiles>(a(2, s), next);
    multiply<kRowTiles>();
  }
  for (int64_t s = 0; s < steps; ++s) {
    load_left<kRowTiles>(a(0, s), next);
    load_right(b(0, s));
    multiply<kRowTiles>();
  }
  constexpr int64_t kStride = kTilePanel * sizeof(float);
  _tile_stored(0, sums, kStride);
  _tile_stored(1, sums + kTileEdge, kStride);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, sums + kTileEdge * kTilePanel, kStride);
    _tile_stored(3, sums + kTileEdge * kTilePanel + kTileEdge, kStride);
  }
}

HEED_TILES void finish_rows(const float* sums, int64_t rows, int64_t width, float* c, int64_t ldc, TileFinish finish) {
  for (int64_t half = 0; half * kTileEdge < width; ++half) {
    const auto live = static_cast<__mmask16>((1U << std::min<int64_t>(width - half * kTileEdge, 16)) - 1);
    const int64_t column = half * kTileEdge;
    const __m512 bias = finish.bias ? _mm512_maskz_loadu_ps(live, finish.bias + column) : _mm512_setzero_ps();
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = c + r * ldc + column;
      __m512 y = _mm512_load_ps(sums + r * kTilePanel + column);
      if (finish.add) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(live, to));
      if (finish.bias) y = _mm512_add_ps(y, bias);
      if (finish.relu)  // NaN stays
        y = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_NLT_UQ), y);
      _mm512_mask_storeu_ps(to, live, y);
    }
  }
}

// Sums are finished while the unit is at the next ones: they cannot be read as soon as it has stored them.
template <int kPieces>
void product_of(const uint16_t* left, const uint16_t* right, int64_t rows, int64_t columns, int64_t length, float* c,
                int64_t ldc, TileFinish finish) {
  constexpr int64_t kRows = 2 * kTileEdge;
  alignas(64) float sums[2][kRows * kTilePanel];
  const int64_t steps = steps_of(length), panels = (columns + kTilePanel - 1) / kTilePanel;
  const int64_t blocks = (rows + kRows - 1) / kRows * panels;
  const auto at = [&](int64_t block, auto&& f) {
    const int64_t row = block / panels * kRows, column = block % panels * kTilePanel;
    f(row, std::min(rows - row, kRows), column, std::min(columns - column, kTilePanel), sums[block % 2]);
  };
  const auto multiply_block = [&](int64_t row, int64_t count, int64_t column, int64_t width, float* to) {
    for (int64_t r = 0; r < count; ++r)  // too far apart for the hardware to guess
      for (int64_t j = 0; j < width; j += kTileEdge) __builtin_prefetch(c + (row + r) * ldc + column + j, 1);
    const auto multiply_both = count > kTileEdge ? multiply_tiles<2, kPieces> : multiply_tiles<1, kPieces>;
    multiply_both(left + left_at(row, length), right + right_at(column, length, kPieces), steps, to);
  };
  const auto finish_block = [&](int64_t row, int64_t count, int64_t column, int64_t width, const float* from) {
    finish_rows(from, count, width, c + row * ldc + column, ldc,
                {finish.add, finish.bias ? finish.bias + column : nullptr, finish.relu});
  };
  for (int64_t block = 0; block <= blocks; ++block) {
    if (block < blocks) at(block, multiply_block);
    if (block > 0) at(block - 1, finish_block);
  }
}

std::atomic<bool>& wanted() {
  static std::atomic<bool> is{[] {
    const char* const value = std::getenv("HEED_MATRIX_UNIT");
    return value && std::string_view(value) == "1";
  }()};
  return is;
}

bool asked() {
  unsigned eax, ebx, ecx, edx;
  // Leaf 7: bit 22 of edx is AMX-BF16, 24 AMX-TILE; leaf 7.1: bit 5 of eax is AVX512-BF16.
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx >> 22 & 1) == 0 || (edx >> 24 & 1) == 0)
    return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax >> 5 & 1) == 0) return false;
  // Linux lends the registers to a process that asks, since they make its threads' states larger by 8 KB.
  constexpr int kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

// What the unit reads: eight tiles of 16 rows. In memory from the start, since GCC 12 tells its optimizer of the first
// eight bytes alone.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constinit const TileConfig kConfig;

HEED_TILES void configure() { _tile_loadconfig(&kConfig); }
HEED_TILES void release() { _tile_release(); }

}  // namespace

bool has_matrix_tiles() {
  static const bool has = asked();
  return has;
}

bool uses_matrix_tiles() { return wanted().load(std::memory_order_relaxed) && has_matrix_tiles(); }
void use_matrix_tiles_for_test(bool use) { wanted() = use; }

MatrixTiles::MatrixTiles() { configure(); }
MatrixTiles::~MatrixTiles() { release(); }

bool tile_left(const float* a, int64_t stride, int64_t rows, int64_t length, uint16_t* to) {
  return split_left(a, stride, rows, length, to);
}

bool tile_right(const float* panel, int64_t length, int pieces, uint16_t* to) {
  return pieces == 1   ? split_right<1>(panel, length, to)
         : pieces == 2 ? split_right<2>(panel, length, to)
                       : split_right<3>(panel, length, to);
}

void tile_product(const uint16_t* left, const uint16_t* right, int64_t rows, int64_t columns, int64_t length,
                  int pieces, float* c, int64_t ldc, TileFinish finish) {
  (pieces == 1   ? product_of<1>
   : pieces == 2 ? product_of<2>
                 : product_of<3>)(left, right, rows, columns, length, c, ldc, finish);
}

}  // namespace heed::inline v0

#else
namespace heed::inline v0 {

bool has_matrix_tiles() { return false; }
bool uses_matrix_tiles() { return false; }
void use_matrix_tiles_for_test(bool) {}

}  // namespace heed::inline v0
#endif
