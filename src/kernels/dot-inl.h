// Products with a right operand that is read as it stands, by its transpose: sums along rows of both, for every target.
// For calls with too few rows to repay packing. Included once per target.
#if defined(HEED_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_DOT_INL_H_
#undef HEED_KERNELS_DOT_INL_H_
#else
#define HEED_KERNELS_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/scratch.h"
#include "simd/quantised-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Sums of kDotRows x kDotColumns vectors, plus a vector of each row and one of a column, fill the registers.
constexpr int kDotRows = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 6 : HWY_ARCH_WASM ? 2 : 3;
constexpr int kDotColumns = 4;  // as many as store_four_sums takes

// With so few rows of x the time goes into reading w, where that comes from memory: by one stream 1.4 to 1.9 times as
// fast as by four (Zen 4, two threads, weights of 240 and 480 MB); in the second-level cache a little slower.
constexpr int64_t kOnceRows = HWY_MIN(4, kDotRows);
// In WebAssembly the one sum that such a stream has at a time is what is waited for.
constexpr int64_t kFarBytes = HWY_ARCH_WASM ? INT64_MAX : 1 << 20;  // of all of w

// The totals of a tile's sums, with what is done to them.
template <int kRows, int kColumns, class T>
HWY_INLINE void StoreDot(const Vec<T> (&sum)[kRows][kDotColumns], T* y, int64_t ldy, const T* bias, bool relu) {
  unroll<kRows>([&](auto r) HWY_ATTR {
    T totals[kDotColumns];
    store_four_sums<T>(sum[r], totals);
    for (int c = 0; c < kColumns; ++c) {
      const T total = bias ? totals[c] + bias[c] : totals[c];
      y[r * ldy + c] = relu && total < 0 ? T{0} : total;  // NaN stays
    }
  });
}

// A vector of each row and column, `stride` apart.
template <int kRows, int kColumns, class T, class W>
HWY_INLINE void AddDots(const T* HWY_RESTRICT x, const W* HWY_RESTRICT w, int64_t stride,
                        Vec<T> (&sum)[kRows][kDotColumns]) {
  const Lanes<T> d;
  Vec<T> left[kRows];
  unroll<kRows>([&](auto r) HWY_ATTR { left[r] = hn::LoadU(d, x + r * stride); });
  unroll<kColumns>([&](auto c) HWY_ATTR {
    const Vec<T> right = load_as<T>(w + c * stride);
    unroll<kRows>([&](auto r) HWY_ATTR { sum[r][c] = hn::MulAdd(left[r], right, sum[r][c]); });
  });
}

// y (kRows, kColumns <= kDotColumns) = x (kRows, depth) w (kColumns, depth)^T. `kOnce`: w comes from memory, for these
// rows alone.
template <int kRows, int kColumns, bool kOnce, class T, class W>
HWY_NOINLINE void DotTile(const T* HWY_RESTRICT x, const W* HWY_RESTRICT w, int64_t depth, T* y, int64_t ldy,
                          const T* bias, bool relu) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr auto N = static_cast<int64_t>(hn::MaxLanes(d));
  V sum[kRows][kDotColumns];
  unroll<kRows>([&](auto r) HWY_ATTR { unroll<kDotColumns>([&](auto c) HWY_ATTR { sum[r][c] = hn::Zero(d); }); });
  HWY_ALIGN T rest_x[kRows * N];
  HWY_ALIGN W rest_w[kColumns * N];
  int64_t stride = depth, begin = 0;
  if constexpr (kOnce) {
    // One column of the result after the other, as memory has w: what fetches ahead follows one long stream further
    // than four short ones.
    begin = depth / N * N;
    unroll<kColumns>([&](auto c) HWY_ATTR {
      const W* const column = w + c * depth;
      for (int64_t t = 0; t < begin; t += N) {
        const V right = load_as<T>(column + t);
        unroll<kRows>([&](auto r)
                          HWY_ATTR { sum[r][c] = hn::MulAdd(hn::LoadU(d, x + r * depth + t), right, sum[r][c]); });
      }
    });
    x += begin, w += begin;
  } else if constexpr (HWY_ARCH_WASM) {
    // The loop below, without what it has for a rest: twice as fast, since all is in registers. An address is an
    // instruction, but for a constant that is added to it: one row has few others to hide it.
    constexpr int kSteps = kRows == 1 ? 2 : 1;
    for (; begin + kSteps * N <= depth; begin += kSteps * N, x += kSteps * N, w += kSteps * N)
      unroll<kSteps>([&](auto s) HWY_ATTR { AddDots<kRows, kColumns>(x + s * N, w + s * N, depth, sum); });
  }
  for (int64_t t = begin; t < depth; t += N, x += N, w += N) {
    if (HWY_UNLIKELY(depth - t < N)) {  // what is left of each row, and zeros behind it
      std::fill(rest_x, rest_x + kRows * N, T{});
      std::fill(rest_w, rest_w + kColumns * N, W{});
      for (int r = 0; r < kRows; ++r) std::copy(x + r * depth, x + r * depth + depth - t, rest_x + r * N);
      for (int c = 0; c < kColumns; ++c) std::copy(w + c * depth, w + c * depth + depth - t, rest_w + c * N);
      x = rest_x, w = rest_w, stride = N;
    }
    AddDots<kRows, kColumns>(x, w, stride, sum);
  }
  StoreDot<kRows, kColumns, T>(sum, y, ldy, bias, relu);
}

// The same of blocks of q8. Between two products of a sum come those of the other columns, since a vector of blocks is
// read sooner than a sum takes its last product. What fetches ahead is lost in four short streams, so it is told.
template <int kRows, int kColumns>
HWY_NOINLINE void DotTileOfQ8(const float* HWY_RESTRICT x, const q8_block* HWY_RESTRICT w, int64_t depth, float* y,
                              int64_t ldy, const float* bias, bool relu) {
  const Lanes<float> d;
  Vec<float> sum[kRows][kDotColumns];
  unroll<kRows>([&](auto r) HWY_ATTR { unroll<kDotColumns>([&](auto c) HWY_ATTR { sum[r][c] = hn::Zero(d); }); });
  const int64_t blocks = depth / kQ8Block;
  // The next columns: in the order of memory, where half of the first-level cache holds them.
  const q8_block* const next = w + kColumns * blocks;
  const bool in_order = kColumns * blocks * static_cast<int64_t>(sizeof(q8_block)) <= 16384;
  const int64_t of_block = in_order ? kColumns : 1, of_column = in_order ? 1 : blocks;
  for (int64_t b = 0; b < blocks; ++b, ++w, x += kQ8Block)
    unroll<kColumns>([&](auto c) HWY_ATTR {
      const q8_block& block = w[c * blocks];
      __builtin_prefetch(next + b * of_block + c * of_column);
      const Vec<float> scale = scale_of(block);
      unroll<kQ8Block / lanes<float>()>([&](auto v) HWY_ATTR {
        const Vec<float> right = numbers_of(block, v * lanes<float>(), scale);
        unroll<kRows>([&](auto r) HWY_ATTR {
          sum[r][c] = hn::MulAdd(hn::LoadU(d, x + r * depth + v * lanes<float>()), right, sum[r][c]);
        });
      });
    });
  StoreDot<kRows, kColumns, float>(sum, y, ldy, bias, relu);
}

// The same of blocks of any kind, for one row: pieces of the columns are widened to where the first-level cache has
// them.
template <int kColumns>
HWY_NOINLINE void DotRowOfBlocks(const float* HWY_RESTRICT x, const Quantised& w, int64_t depth, float* y,
                                 const float* bias, bool relu) {
  constexpr int64_t kPiece = 256;  // elements of a column
  const Lanes<float> d;
  Vec<float> sum[1][kDotColumns];
  unroll<kDotColumns>([&](auto c) HWY_ATTR { sum[0][c] = hn::Zero(d); });
  HWY_ALIGN float wide[kColumns * kPiece];
  for (int64_t t = 0; t < depth; t += kPiece) {
    const int64_t count = std::min(kPiece, depth - t);
    for (int64_t c = 0; c < kColumns; ++c) widen(element(w, c * depth + t), count, wide + c * kPiece);
    // Of the next columns, in the order of memory.
    const uint8_t* const next = element(w, kColumns * (depth + t)).block();
    for (int64_t i = 0; i < kColumns * (kPiece >> w.log2_block) * w.bytes; i += 64) __builtin_prefetch(next + i);
    for (int64_t i = 0; i < count; i += lanes<float>()) {
      const Vec<float> left = hn::LoadU(d, x + t + i);
      unroll<kColumns>([&](auto c)
                           HWY_ATTR { sum[0][c] = hn::MulAdd(left, hn::Load(d, wide + c * kPiece + i), sum[0][c]); });
    }
  }
  StoreDot<1, kColumns, float>(sum, y, 0, bias, relu);
}

/// y (rows, columns), rows `ldy` apart, = x (rows, depth) w (columns, depth)^T + bias; max(0, .) where `relu`. Each
/// element is summed alike, whatever stands beside it and in however many bits w is kept: numbers one by one, or
/// Quantised. `far`: w is part of what does not stay in the cache from call to call.
template <class T, class Weights>
void DotProduct(int64_t rows, int64_t columns, int64_t depth, const T* x, Weights w, const T* bias, bool relu, T* y,
                int64_t ldy, bool far) {
  constexpr int64_t kNear = 16384 / sizeof(T);  // elements of w at a time: half of the first-level cache
  const int64_t block = std::max<int64_t>(kNear / std::max<int64_t>(depth, 1) / kDotColumns, 1) * kDotColumns;
  const auto rows_of_block = [&](int64_t begin, int64_t end, auto near) HWY_ATTR {
    constexpr bool kBlocks = std::is_same_v<decltype(near), Quantised>;
    const auto tile_of = [&](auto count, auto once, int64_t row) HWY_ATTR {
      const auto some = [&](auto width, int64_t c) HWY_ATTR {
        const T* const left = x + row * depth;
        T* const to = y + row * ldy + c;
        const T* const add = bias ? bias + c : nullptr;
        const auto right = element(near, (c - begin) * depth);
        if constexpr (kBlocks)
          DotTileOfQ8<count(), width()>(left, reinterpret_cast<const q8_block*>(right.block()), depth, to, ldy, add,
                                        relu);
        else
          DotTile<count(), width(), once()>(left, right, depth, to, ldy, add, relu);
      };
      int64_t c = begin;
      for (; c + kDotColumns <= end; c += kDotColumns) some(std::integral_constant<int, kDotColumns>(), c);
      for (; c < end; ++c) some(std::integral_constant<int, 1>(), c);
    };
    const auto tile = [&](auto count, int64_t row) HWY_ATTR {
      if constexpr (count() <= kOnceRows && !kBlocks)
        if (far && rows <= kOnceRows) return tile_of(count, std::true_type(), row);
      tile_of(count, std::false_type(), row);
    };
    int64_t row = 0;
    for (; row + kDotRows <= rows; row += kDotRows) tile(std::integral_constant<int, kDotRows>(), row);
    switch (rows - row) {
      case 5:
        tile(std::integral_constant<int, HWY_MIN(5, kDotRows)>(), row);
        break;
      case 4:
        tile(std::integral_constant<int, HWY_MIN(4, kDotRows)>(), row);
        break;
      case 3:
        tile(std::integral_constant<int, HWY_MIN(3, kDotRows)>(), row);
        break;
      case 2:
        tile(std::integral_constant<int, 2>(), row);
        break;
      case 1:
        tile(std::integral_constant<int, 1>(), row);
        break;
      default:
        break;
    }
  };
  for (int64_t begin = 0; begin < columns; begin += block) {
    const int64_t end = std::min(columns, begin + block), count = (end - begin) * depth;
    const auto some = element(w, begin * depth);
    if constexpr (!std::is_same_v<const T*, Weights>) {
      if (rows > 4 * kDotRows && count <= kNear) {  // widened once for all rows, where that repays
        HWY_ALIGN T near[kNear];
        widen(some, count, near);
        rows_of_block(begin, end, static_cast<const T*>(near));
        continue;
      }
    }
    if constexpr (std::is_same_v<Weights, Quantised>) {
      if (w.dtype != DType::q8 && rows > 1) {
        const ScratchArray<T> near(count);
        widen(some, count, near.get());
        rows_of_block(begin, end, static_cast<const T*>(near.get()));
        continue;
      }
      if (w.dtype != DType::q8) {
        int64_t c = begin;
        const auto next = [&](auto width) HWY_ATTR {
          DotRowOfBlocks<width()>(x, element(w, c * depth), depth, y + c, bias ? bias + c : nullptr, relu);
          c += width();
        };
        while (c + kDotColumns <= end) next(std::integral_constant<int, kDotColumns>());
        while (c < end) next(std::integral_constant<int, 1>());
        continue;
      }
    }
    rows_of_block(begin, end, some);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
