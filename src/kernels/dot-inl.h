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

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Sums of kDotRows x kDotColumns vectors, plus a vector of each row and one of a column, fill the registers.
constexpr int kDotRows = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 6 : 3;
constexpr int kDotColumns = 4;  // as many as store_four_sums takes

// With so few rows of x the time goes into reading w, where that comes from memory: by one stream 1.4 to 1.9 times as
// fast as by four (Zen 4, two threads, weights of 240 and 480 MB); in the second-level cache a little slower.
constexpr int64_t kOnceRows = HWY_MIN(4, kDotRows);
constexpr int64_t kFarBytes = 1 << 20;  // of all of w

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
  }
  for (int64_t t = begin; t < depth; t += N, x += N, w += N) {
    if (HWY_UNLIKELY(depth - t < N)) {  // what is left of each row, and zeros behind it
      std::fill(rest_x, rest_x + kRows * N, T{});
      std::fill(rest_w, rest_w + kColumns * N, W{});
      for (int r = 0; r < kRows; ++r) std::copy(x + r * depth, x + r * depth + depth - t, rest_x + r * N);
      for (int c = 0; c < kColumns; ++c) std::copy(w + c * depth, w + c * depth + depth - t, rest_w + c * N);
      x = rest_x, w = rest_w, stride = N;
    }
    V left[kRows];
    unroll<kRows>([&](auto r) HWY_ATTR { left[r] = hn::LoadU(d, x + r * stride); });
    unroll<kColumns>([&](auto c) HWY_ATTR {
      const V right = load_as<T>(w + c * stride);
      unroll<kRows>([&](auto r) HWY_ATTR { sum[r][c] = hn::MulAdd(left[r], right, sum[r][c]); });
    });
  }
  unroll<kRows>([&](auto r) HWY_ATTR {
    T totals[kDotColumns];
    store_four_sums<T>(sum[r], totals);
    for (int c = 0; c < kColumns; ++c) {
      const T total = bias ? totals[c] + bias[c] : totals[c];
      y[r * ldy + c] = relu && total < 0 ? T{0} : total;  // NaN stays
    }
  });
}

/// y (rows, columns), rows `ldy` apart, = x (rows, depth) w (columns, depth)^T + bias; max(0, .) where `relu`. Each
/// element is summed alike, whatever stands beside it and in however many bits w is kept. `far`: w is part of what does
/// not stay in the cache from call to call.
template <class T, class W>
void DotProduct(int64_t rows, int64_t columns, int64_t depth, const T* x, const W* w, const T* bias, bool relu, T* y,
                int64_t ldy, bool far) {
  constexpr int64_t kNear = 16384 / sizeof(T);  // elements of w at a time: half of the first-level cache
  const int64_t block = std::max<int64_t>(kNear / std::max<int64_t>(depth, 1) / kDotColumns, 1) * kDotColumns;
  const auto rows_of_block = [&](int64_t begin, int64_t end, const auto* near) HWY_ATTR {
    const auto tile_of = [&](auto count, auto once, int64_t row) HWY_ATTR {
      const T* const left = x + row * depth;
      T* const to = y + row * ldy;
      int64_t c = begin;
      for (; c + kDotColumns <= end; c += kDotColumns)
        DotTile<count(), kDotColumns, once()>(left, near + (c - begin) * depth, depth, to + c, ldy,
                                              bias ? bias + c : nullptr, relu);
      for (; c < end; ++c)
        DotTile<count(), 1, once()>(left, near + (c - begin) * depth, depth, to + c, ldy, bias ? bias + c : nullptr,
                                    relu);
    };
    const auto tile = [&](auto count, int64_t row) HWY_ATTR {
      if constexpr (count() <= kOnceRows)
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
    if constexpr (!std::is_same_v<T, W>) {
      if (rows > kDotRows && count <= kNear) {  // widened once for all rows
        HWY_ALIGN T near[kNear];
        widen(w + begin * depth, count, near);
        rows_of_block(begin, end, near);
        continue;
      }
    }
    rows_of_block(begin, end, w + begin * depth);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
