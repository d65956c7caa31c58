// The pieces both directions are made of. A tile of scores is held transposed, [key][query]: queries lie along the
// lanes, so a row's maximum and sum need no horizontal step, and neither keys nor values are ever transposed.
#if defined(HEED_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_TILE_INL_H_
#undef HEED_ATTENTION_TILE_INL_H_
#else
#define HEED_ATTENTION_TILE_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <utility>

#include "attention/dropout.h"
#include "attention/fused.h"
#include "attention/problem.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Lanes<T>>;

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;

template <class T>
constexpr int64_t lanes() {
  return static_cast<int64_t>(hn::MaxLanes(Lanes<T>()));
}
template <class T>
constexpr int64_t round_to_lanes(int64_t n) {
  return (n + lanes<T>() - 1) / lanes<T>() * lanes<T>();
}

// Calls f(integral_constant 0), ..., f(integral_constant N - 1): loops over registers must vanish.
template <class F, int... I>
HWY_INLINE void unroll(std::integer_sequence<int, I...>, F&& f) {
  (f(std::integral_constant<int, I>()), ...);
}
template <int N, class F>
HWY_INLINE void unroll(F&& f) {
  unroll(std::make_integer_sequence<int, N>(), f);
}

// ---- Matrix products ----

// Accumulators kMaxRows x kMaxVecs, plus a row of B and one broadcast, fill the registers.
constexpr int kMaxRows = 6;
constexpr int kMaxVecs = HWY_MAX_BYTES == 64 || HWY_TARGET == HWY_NEON ? 4 : 2;

// A (rows, depth) is read one element at a time: kRowMajor says whether its depth or its rows are contiguous.
template <class T, bool kRowMajor>
struct Left {
  const T* data;
  int64_t stride;
  HWY_INLINE T at(int64_t row, int64_t t) const { return kRowMajor ? data[row * stride + t] : data[t * stride + row]; }
  HWY_INLINE Left from(int64_t row, int64_t t) const {
    return {kRowMajor ? data + row * stride + t : data + t * stride + row, stride};
  }
};

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
  constexpr int64_t N = lanes<T>();
  Vec<T> sum[kRows][kVecs];
  unroll<kRows>([&](auto r) HWY_ATTR {
    unroll<kVecs>([&](auto v) HWY_ATTR { sum[r][v] = add ? hn::LoadU(d, c.row(r) + v * N) : hn::Zero(d); });
  });
  const T* HWY_RESTRICT left = a.data;
  const T* HWY_RESTRICT right = b.data;
  for (int64_t t = 0; t < depth; ++t) {
    Vec<T> row[kVecs];
    unroll<kVecs>([&](auto v) HWY_ATTR { row[v] = hn::LoadU(d, right + v * N); });
    unroll<kRows>([&](auto r) HWY_ATTR {
      const Vec<T> x = hn::Set(d, kRowMajor ? left[r * a.stride] : left[r]);
      unroll<kVecs>([&](auto v) HWY_ATTR { sum[r][v] = hn::MulAdd(x, row[v], sum[r][v]); });
    });
    left += kRowMajor ? 1 : a.stride;
    right += b.stride;
  }
  unroll<kRows>([&](auto r)
                    HWY_ATTR { unroll<kVecs>([&](auto v) HWY_ATTR { hn::StoreU(sum[r][v], d, c.row(r) + v * N); }); });
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

// ---- Exponentials ----

// 2^x = 2^n 2^f with n an integer and f in [-0.5, 0.5]: a polynomial (Remez exchange; relative error 2e-9 for float,
// 3e-18 for double) times a number put together from its bits. 0 below the least normal number; NaN stays NaN.
template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  const Lanes<T> d;
  const hn::RebindToSigned<Lanes<T>> di;
  const auto c = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52, kBias = sizeof(T) == 4 ? 127 : 1023;
  // Adding 1.5 * 2^mantissa rounds to an integer, whose low bits then are those of n + bias: an exponent.
  const Vec<T> magic = c(1.5 * static_cast<double>(int64_t{1} << kMantissa) + kBias);
  const Vec<T> shifted = hn::Add(x, magic);
  const Vec<T> f = hn::Sub(x, hn::Sub(shifted, magic));
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(di, shifted)));
  Vec<T> y;
  if constexpr (sizeof(T) == 4) {
    y = hn::MulAdd(c(1.53458121587401825e-4), f, c(1.33999312094741405e-3));
    y = hn::MulAdd(y, f, c(9.61848895652279157e-3));
    y = hn::MulAdd(y, f, c(5.55032877699766376e-2));
    y = hn::MulAdd(y, f, c(2.40226468906395721e-1));
    y = hn::MulAdd(y, f, c(6.93147205737252675e-1));
    y = hn::MulAdd(y, f, c(1.0));
  } else {
    y = hn::MulAdd(c(4.43528094461033616e-10), f, c(7.07410562624565937e-9));
    y = hn::MulAdd(y, f, c(1.01781980333285277e-7));
    y = hn::MulAdd(y, f, c(1.3215433089594629e-6));
    y = hn::MulAdd(y, f, c(1.52527334899608046e-5));
    y = hn::MulAdd(y, f, c(1.5403530462530462e-4));
    y = hn::MulAdd(y, f, c(1.33335581467899503e-3));
    y = hn::MulAdd(y, f, c(9.61812910758833508e-3));
    y = hn::MulAdd(y, f, c(5.55041086648199215e-2));
    y = hn::MulAdd(y, f, c(2.40226506959101562e-1));
    y = hn::MulAdd(y, f, c(6.9314718055994533e-1));
    y = hn::MulAdd(y, f, c(1.0));
  }
  return hn::IfThenZeroElse(hn::Lt(x, c(1 - kBias)), hn::Mul(y, power));
}

// ---- Moving rows ----

// to[j * to_stride + i] = factor * from[i * from_stride + j] for i < rows, j < width. With kPad, columns rows ..
// round_to_lanes(rows) of `to` become 0.
template <bool kPad, class T>
HWY_INLINE void transpose(int64_t rows, int64_t width, const T* HWY_RESTRICT from, int64_t from_stride, T factor,
                          T* HWY_RESTRICT to, int64_t to_stride) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // Blocks of 128 bits: every target has the two interleaves that turn them.
  const hn::Full128<T> d;
  constexpr int64_t kBlock = 16 / sizeof(T);
  const auto scale = hn::Set(d, factor);
  const auto load = [&](int64_t row, int64_t j) HWY_ATTR {
    return row < rows ? hn::Mul(scale, hn::LoadU(d, from + row * from_stride + j)) : hn::Zero(d);
  };
  const int64_t end = kPad ? round_to_lanes<T>(rows) : rows / kBlock * kBlock;
  for (; i < end; i += kBlock) {
    T* out = to + i;
    int64_t j = 0;
    for (; j + kBlock <= width; j += kBlock) {
      const auto a = load(i, j), b = load(i + 1, j);
      if constexpr (sizeof(T) == 8) {
        hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + to_stride);
      } else {
        const auto e = load(i + 2, j), f = load(i + 3, j);
        const auto ae = hn::InterleaveLower(d, a, e), bf = hn::InterleaveLower(d, b, f);
        const auto ae_upper = hn::InterleaveUpper(d, a, e), bf_upper = hn::InterleaveUpper(d, b, f);
        hn::StoreU(hn::InterleaveLower(d, ae, bf), d, out);
        hn::StoreU(hn::InterleaveUpper(d, ae, bf), d, out + to_stride);
        hn::StoreU(hn::InterleaveLower(d, ae_upper, bf_upper), d, out + 2 * to_stride);
        hn::StoreU(hn::InterleaveUpper(d, ae_upper, bf_upper), d, out + 3 * to_stride);
      }
      out += kBlock * to_stride;
    }
    for (; j < width; ++j, out += to_stride)
      for (int64_t r = 0; r < kBlock; ++r) out[r] = i + r < rows ? factor * from[(i + r) * from_stride + j] : T{0};
  }
#endif
  for (; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) to[j * to_stride + i] = factor * from[i * from_stride + j];
}

// to (rows, round_to_lanes(width)) = factor * from (rows, width), with zeros in the last columns.
template <class T>
HWY_INLINE void copy_padded(int64_t rows, int64_t width, const T* HWY_RESTRICT from, int64_t from_stride, T factor,
                            T* HWY_RESTRICT to, int64_t to_stride) {
  const Lanes<T> d;
  const Vec<T> scale = hn::Set(d, factor);
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    int64_t j = 0;
    for (; j + lanes<T>() <= width; j += lanes<T>()) hn::StoreU(hn::Mul(scale, hn::LoadU(d, from + j)), d, to + j);
    if (j == width) continue;
    hn::StoreU(hn::Zero(d), d, to + j);
    for (; j < width; ++j) to[j] = factor * from[j];
  }
}

// to (rows, width) = or += factor * from.
template <class T>
HWY_INLINE void write_rows(int64_t rows, int64_t width, const T* HWY_RESTRICT from, int64_t from_stride, T factor,
                           T* HWY_RESTRICT to, int64_t to_stride, bool add) {
  const Lanes<T> d;
  const Vec<T> scale = hn::Set(d, factor);
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    int64_t j = 0;
    for (; j + lanes<T>() <= width; j += lanes<T>()) {
      const Vec<T> before = add ? hn::LoadU(d, to + j) : hn::Zero(d);
      hn::StoreU(hn::MulAdd(scale, hn::LoadU(d, from + j), before), d, to + j);
    }
    for (; j < width; ++j) to[j] = (add ? to[j] : T{0}) + factor * from[j];
  }
}

template <class T>
HWY_INLINE bool all_finite(int64_t rows, int64_t width, const T* from, int64_t stride) {
  const Lanes<T> d;
  Vec<T> sum = hn::Zero(d);  // of x * 0: NaN as soon as one x is not finite
  T tail = 0;
  for (int64_t i = 0; i < rows; ++i, from += stride) {
    int64_t j = 0;
    for (; j + lanes<T>() <= width; j += lanes<T>()) sum = hn::MulAdd(hn::LoadU(d, from + j), hn::Zero(d), sum);
    for (; j < width; ++j) tail += from[j] * T{0};
  }
  return hn::AllTrue(d, hn::Eq(sum, sum)) && tail == 0;
}

// ---- A tile of scores ----

// Queries [query, query + queries) and keys [key, key + keys) of one head. Scores are [key][query], `pitch` apart.
struct Tile {
  int64_t b, h, query, queries, key, keys, pitch;
};

// Whether the causal rule hides any pair of the tile.
template <class T>
HWY_INLINE bool is_diagonal(const Problem<T>& p, const Tile& tile) {
  return p.causal != Causal::none && tile.key + tile.keys > tile.query + p.causal_offset(tile.b);
}

// First query of the tile that may see its key number `key`.
template <class T>
HWY_INLINE int64_t first_query(const Problem<T>& p, const Tile& tile, int64_t key) {
  const int64_t first = tile.key + key + 1 - p.causal_offset(tile.b) - tile.query;
  return HWY_MAX(int64_t{0}, HWY_MIN(first, tile.queries));
}

// Keys of the tile that its query number `query` may see.
template <class T>
HWY_INLINE int64_t keys_seen(const Problem<T>& p, const Tile& tile, int64_t query) {
  return HWY_MAX(int64_t{0}, HWY_MIN(tile.query + query + p.causal_offset(tile.b) - tile.key, tile.keys));
}

// c (keys, queries) = rows (keys, depth) columns (depth, queries): q k^T or grad_out v^T, transposed. Columns that
// the causal rule hides from a whole group of rows are left as they are.
template <class T>
HWY_INLINE void qk_tile(const Problem<T>& p, const Tile& tile, bool diagonal, Left<T, true> rows,
                        Matrix<const T> columns, int64_t depth, T* c) {
  const Matrix<T> to{c, tile.pitch};
  if (!diagonal) return product(tile.keys, tile.pitch, depth, rows, columns, to, false);
  for (int64_t j = 0; j < tile.keys; j += kMaxRows) {
    const int64_t first = first_query(p, tile, j) / lanes<T>() * lanes<T>();
    product(HWY_MIN(tile.keys - j, int64_t{kMaxRows}), tile.pitch - first, depth, rows.from(j, 0),
            columns.from(0, first), to.from(j, first), false);
  }
}

// out (queries, width) = or += weights^T values (keys, width); the keys behind a query's causal limit are skipped.
template <class T>
HWY_INLINE void pv_tile(const Problem<T>& p, const Tile& tile, bool diagonal, const T* weights, Matrix<const T> values,
                        int64_t width, Matrix<T> out, bool add) {
  const Left<T, false> left{weights, tile.pitch};
  if (!diagonal) return product(tile.queries, width, tile.keys, left, values, out, add);
  for (int64_t i = 0; i < tile.queries; i += kMaxRows) {
    const int64_t rows = HWY_MIN(tile.queries - i, int64_t{kMaxRows});
    product(rows, width, keys_seen(p, tile, i + rows - 1), left.from(i, 0), values, out.from(i, 0), add);
  }
}

// What the mask adds, in units of log 2, laid out like the scores; -inf hides.
template <class T>
void load_mask(const Problem<T>& p, const Tile& tile, T* HWY_RESTRICT to) {
  const Lanes<T> d;
  const T hidden = -static_cast<T>(INFINITY), unit = static_cast<T>(kLog2E);
  const MaskView& mask = p.mask;
  const int64_t at = mask.offset(tile.b, tile.h, tile.query, tile.key);
  const auto value = [&](int64_t offset) HWY_ATTR {
    return mask.boolean ? (static_cast<const bool*>(mask.data)[at + offset] ? T{0} : hidden)
                        : unit * static_cast<const T*>(mask.data)[at + offset];
  };
  for (int64_t j = 0; j < tile.keys; ++j) {
    T* const row = to + j * tile.pitch;
    if (mask.query == 0) {
      const Vec<T> x = hn::Set(d, value(j * mask.key));
      for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) hn::StoreU(x, d, row + i);
    } else {
      for (int64_t i = 0; i < tile.queries; ++i) row[i] = value(i * mask.query + j * mask.key);
      for (int64_t i = tile.queries; i < tile.pitch; ++i) row[i] = 0;
    }
  }
}

// Adds the mask and writes -inf where a key is hidden, whatever stood there.
template <class T>
void apply_mods(const Problem<T>& p, const Tile& tile, bool diagonal, T* HWY_RESTRICT mask, T* HWY_RESTRICT scores) {
  const Lanes<T> d;
  const Vec<T> hidden = hn::Set(d, -static_cast<T>(INFINITY));
  if (p.mask.present) load_mask(p, tile, mask);
  for (int64_t j = 0; j < tile.keys; ++j) {
    const auto first = static_cast<T>(diagonal ? first_query(p, tile, j) : 0);
    for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
      T* const at = scores + j * tile.pitch + i;
      Vec<T> s = hn::LoadU(d, at);
      if (p.mask.present) {
        const Vec<T> added = hn::LoadU(d, mask + j * tile.pitch + i);
        s = hn::IfThenElse(hn::Eq(added, hidden), hidden, hn::Add(s, added));
      }
      if (diagonal) s = hn::IfThenElse(hn::Lt(hn::Iota(d, static_cast<T>(i)), hn::Set(d, first)), hidden, s);
      hn::StoreU(s, d, at);
    }
  }
}

// ---- Dropout ----

// The four draws of a quad of keys (dropout_draws) for `pitch` queries at once: draws (4, pitch).
HWY_INLINE void draw_quad(const Dropout& dropout, int64_t head, int64_t query, int64_t quad, int64_t pitch,
                          uint32_t* HWY_RESTRICT draws) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < pitch; ++i) {
    const PhiloxCounter draw = dropout_draws(dropout, head, query + i, quad);
    for (int64_t w = 0; w < 4; ++w) draws[w * pitch + i] = draw[static_cast<size_t>(w)];
  }
#else
  // Quarter of a tile's least pitch: double has half the lanes of uint32, so vectors may be cut to 128 bits.
  const hn::CappedTag<uint32_t, HWY_MIN(HWY_MAX_BYTES / 8, 16)> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  using V = hn::Vec<decltype(d)>;
  const auto multiply = [&](V a, uint32_t factor, V& high, V& low) HWY_ATTR {
    const V m = hn::Set(d, factor);
    const auto even = hn::MulEven(a, m);
    const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), m);
    high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  };
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pitch; i += step) {
    V c0 = hn::Set(d, static_cast<uint32_t>(quad)), c1 = hn::Iota(d, static_cast<uint32_t>(query + i));
    V c2 = hn::Set(d, static_cast<uint32_t>(head)), c3 = hn::Set(d, static_cast<uint32_t>(head >> 32));
    uint32_t k0 = dropout.key[0], k1 = dropout.key[1];
    for (int round = 0; round < 10; ++round) {
      V high0, low0, high1, low1;
      multiply(c0, kPhiloxM0, high0, low0);
      multiply(c2, kPhiloxM1, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c3 = low0;
      k0 += kPhiloxW0, k1 += kPhiloxW1;
    }
    hn::StoreU(c0, d, draws + i);
    hn::StoreU(c1, d, draws + pitch + i);
    hn::StoreU(c2, d, draws + 2 * pitch + i);
    hn::StoreU(c3, d, draws + 3 * pitch + i);
  }
#endif
}

// factors, laid out like the scores: 0 where a weight is dropped, 1 / (1 - p) where it is kept. The tile's first key
// is a multiple of 4.
template <class T>
void dropout_factors(const Problem<T>& p, const Dropout& dropout, const Tile& tile, T* HWY_RESTRICT factors) {
  HWY_ALIGN uint32_t draws[4 * kQueryTile];
  const auto kept = static_cast<T>(dropout.keep_scale);
  for (int64_t j = 0; j < tile.keys; j += 4) {
    draw_quad(dropout, tile.b * p.Hq + tile.h, tile.query, (tile.key + j) / 4, tile.pitch, draws);
    const int64_t n = HWY_MIN(tile.keys - j, int64_t{4}) * tile.pitch;
    for (int64_t i = 0; i < n; ++i) factors[j * tile.pitch + i] = draws[i] < dropout.threshold ? kept : T{0};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_TILE_INL_H_
