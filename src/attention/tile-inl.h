// The pieces both directions are made of. A tile of scores is held transposed, [key][query]: queries lie along the
// lanes, so a row's maximum and sum need no horizontal step, and neither keys nor values are ever transposed.
#if defined(HEED_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_TILE_INL_H_
#undef HEED_ATTENTION_TILE_INL_H_
#else
#define HEED_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "attention/dropout.h"
#include "attention/fused.h"
#include "attention/problem.h"
#include "attention/product-inl.h"
#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "simd/exp-inl.h"
#include "simd/philox-inl.h"
#include "simd/transpose-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// Odd: near 0 a series would cancel in 1 - 2 / (e^2x + 1), so Highway's, by way of e^x - 1.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  return hn::Tanh(Lanes<T>(), x);
}

// ---- Moving rows ----

// c (rows, width) = 0 in columns [from, to).
template <class T>
HWY_INLINE void zero_columns(int64_t rows, int64_t from, int64_t to, T* c, int64_t stride) {
  if (from >= to) return;
  for (int64_t i = 0; i < rows; ++i) std::fill(c + i * stride + from, c + i * stride + to, T{0});
}

// ---- Operands as they are kept ----

// f(element type) for rows kept as T or in half of float's bits.
template <class T, class F>
HWY_INLINE auto with_storage(Storage storage, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (storage == Storage::f16) return f(hwy::float16_t());
    if (storage == Storage::bf16) return f(hwy::bfloat16_t());
  }
  return f(T());
}

// A vector of row `at`, from column j, as T.
template <class T>
HWY_INLINE Vec<T> load(const Source<T>& source, int64_t at, int64_t j) {
  return with_storage<T>(source.storage, [&](auto element) HWY_ATTR {
    return load_as<T>(static_cast<const decltype(element)*>(source.data) + at * source.row + j);
  });
}

// The source's columns from `column` on.
template <class T>
HWY_INLINE Source<T> columns_of(Source<T> source, int64_t column) {
  source.data = static_cast<const char*>(source.data) +
                column * static_cast<int64_t>(source.storage == Storage::same ? sizeof(T) : sizeof(uint16_t));
  return source;
}

// The loops of copy_rows and store_rows take values: what a lambda captures by reference is read again after each
// store.
template <class T, class S>
HWY_INLINE void widen_rows(const S* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t width,
                           T* HWY_RESTRICT to, int64_t to_stride) {
  const Lanes<T> d;
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    int64_t j = 0;
    for (; j + lanes<T>() <= width; j += lanes<T>()) hn::StoreU(load_as<T>(from + j), d, to + j);
    if (j == width) continue;
    if constexpr (std::is_same_v<S, T>) {
      hn::StoreU(hn::Zero(d), d, to + j);
      for (; j < width; ++j) to[j] = from[j];
    } else {
      HWY_ALIGN S rest[lanes<T>()] = {};
      std::memcpy(rest, from + j, static_cast<size_t>(width - j) * sizeof(S));
      hn::StoreU(load_as<T>(rest), d, to + j);
    }
  }
}

// to (rows, round_to_lanes(width)) = rows [first, first + rows) of `source`, with zeros in the last columns.
template <class T>
HWY_INLINE void copy_rows(const Source<T>& source, int64_t first, int64_t rows, int64_t width, T* HWY_RESTRICT to,
                          int64_t to_stride) {
  with_storage<T>(source.storage, [&](auto element) HWY_ATTR {
    const auto* from = static_cast<const decltype(element)*>(source.data) + first * source.row;
    widen_rows(from, source.row, rows, width, to, to_stride);
  });
}

// Rows as a matrix of T: the caller's memory where it serves, else a copy. `padded`: products read whole vectors of
// it. `gather`: rows far apart, which fall on the same sets of the first-level cache, are better copied.
template <class T>
HWY_INLINE Matrix<const T> load_rows(const Source<T>& source, int64_t first, int64_t rows, int64_t width, bool padded,
                                     T* copy, bool gather = false) {
  if (source.storage == Storage::same && !(padded && width % lanes<T>() != 0) && !(gather && source.row != width))
    return {source.direct(first), source.row};
  copy_rows(source, first, rows, width, copy, round_to_lanes<T>(width));
  return {copy, round_to_lanes<T>(width)};
}

// The same as a product's right operand; panels that are narrow, of rows of 512 bytes or more, are packed.
template <class T>
HWY_INLINE Panels<T> load_panels(const Source<T>& source, int64_t first, int64_t rows, int64_t width, T* copy,
                                 bool gather) {
  const int64_t columns = round_to_lanes<T>(width);
  if (!kNarrow<T> || !gather || columns <= kPanel<T> || source.row * static_cast<int64_t>(sizeof(T)) < 512)
    return load_rows(source, first, rows, width, true, copy, gather);
  for (int64_t j = 0; j < width; j += kPanel<T>)
    copy_rows(columns_of(source, j), first, rows, HWY_MIN(width - j, kPanel<T>), copy + j * rows, kPanel<T>);
  return Panels<T>::packed(copy, rows);
}

// Asks for rows [first, first + rows) before they are needed, where they lie apart or stream by: broadcasts and
// transposes read too many streams at once for the hardware to guess. Other rows are in the caches, and asking costs up
// to 13 %.
template <class T>
HWY_INLINE void prefetch_rows(const Source<T>& source, int64_t first, int64_t rows, int64_t width, bool streams) {
  if (source.row == width && !streams) return;
  const int64_t size = source.storage == Storage::same ? static_cast<int64_t>(sizeof(T)) : 2;
  for (int64_t i = first; i < first + rows; ++i) {
    const char* const row = static_cast<const char*>(source.data) + i * source.row * size;
    for (int64_t at = 0; at < width * size; at += 64) hwy::Prefetch(row + at);
  }
}

// to (width, pitch) = factor * the transpose of rows [first, first + rows) of `source`, with zeros past `rows`: one
// panel.
template <class T>
HWY_INLINE void transpose_panel(const Source<T>& source, int64_t first, int64_t rows, int64_t width, T factor, T* to,
                                int64_t pitch) {
  if (source.storage == Storage::same) {
    transpose<true>(rows, width, source.direct(first), source.row, factor, to, pitch);
  } else {
    constexpr int64_t kWidth = 64;
    HWY_ALIGN T piece[kQueryTile * kWidth];
    for (int64_t j = 0; j < width; j += kWidth) {
      const int64_t n = HWY_MIN(width - j, kWidth);
      copy_rows(columns_of(source, j), first, rows, n, piece, kWidth);
      transpose<true>(rows, n, piece, kWidth, factor, to + j * pitch, pitch);
    }
  }
  zero_columns(width, round_to_lanes<T>(rows), pitch, to, pitch);
}

// A tile of queries as the right operand of products: (width, pitch), packed where panels are narrow and deep.
template <class T>
HWY_INLINE bool packs(int64_t width, int64_t pitch) {
  return kNarrow<T> && width > 64 && pitch > kPanel<T>;
}
template <class T>
HWY_INLINE Panels<T> transposed(const T* data, int64_t width, int64_t pitch) {
  return packs<T>(width, pitch) ? Panels<T>::packed(data, width) : Matrix<const T>{data, pitch};
}
template <class T>
HWY_INLINE int64_t transposed_elements(int64_t width, int64_t pitch) {
  return width * (packs<T>(width, pitch) ? panel_columns<T>(pitch) : pitch);
}
template <class T>
HWY_INLINE void transpose_rows(const Source<T>& source, int64_t first, int64_t rows, int64_t width, T factor, T* to,
                               int64_t pitch) {
  if (!packs<T>(width, pitch)) return transpose_panel(source, first, rows, width, factor, to, pitch);
  for (int64_t i = 0; i < pitch; i += kPanel<T>)
    transpose_panel(source, first + i, HWY_MAX(int64_t{0}, HWY_MIN(rows - i, kPanel<T>)), width, factor, to + i * width,
                    kPanel<T>);
}

template <class T>
HWY_INLINE void scale_rows(const T* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t width, T factor,
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

template <class T, class S>
HWY_INLINE void narrow_rows(const T* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t width, T factor,
                            S* HWY_RESTRICT to, int64_t to_stride) {
  const Lanes<T> d;
  const Vec<T> scale = hn::Set(d, factor);
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += to_stride)
    for (int64_t j = 0; j + lanes<T>() <= width; j += lanes<T>())
      store_as<T>(hn::Mul(scale, hn::LoadU(d, from + j)), to + j);
}

// Rows [first, first + rows) of `target` = factor * from; or += where `add`, which needs a target kept as T.
template <class T>
HWY_INLINE void store_rows(const Target<T>& target, int64_t first, int64_t rows, int64_t width,
                           const T* HWY_RESTRICT from, int64_t from_stride, T factor, bool add = false) {
  with_storage<T>(target.storage, [&](auto element) HWY_ATTR {
    using S = decltype(element);
    S* const to = static_cast<S*>(target.data) + first * target.row;
    if constexpr (std::is_same_v<S, T>) {
      scale_rows(from, from_stride, rows, width, factor, to, target.row, add);
    } else {
      int64_t done = 0;
      if constexpr (kConverts<S>) {
        narrow_rows(from, from_stride, rows, width, factor, to, target.row);
        done = width / lanes<T>() * lanes<T>();
      }
      for (int64_t i = 0; done < width && i < rows; ++i)
        for (int64_t j = done; j < width; ++j) target.set(first + i, j, factor * from[i * from_stride + j]);
    }
  });
}

// A bit for every row that holds a NaN or Inf; rows <= 64.
template <class T>
HWY_INLINE uint64_t poisoned_rows(const Source<T>& source, int64_t first, int64_t rows, int64_t width) {
  const Lanes<T> d;
  const int64_t whole = width / lanes<T>() * lanes<T>();
  const auto poisoned = [&](int64_t begin, int64_t end) HWY_ATTR {
    Vec<T> sum = hn::Zero(d);  // of x * 0: NaN as soon as one x is not finite
    T tail = 0;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < whole; j += lanes<T>()) sum = hn::MulAdd(load(source, first + i, j), hn::Zero(d), sum);
      for (int64_t j = whole; j < width; ++j) tail += source.get(first + i, j) * T{0};
    }
    return !(hn::AllTrue(d, hn::Eq(sum, sum)) && tail == 0);
  };
  if (!poisoned(0, rows)) return 0;
  uint64_t bits = 0;
  for (int64_t i = 0; i < rows; ++i)
    if (poisoned(i, i + 1)) bits |= uint64_t{1} << i;
  return bits;
}

// ---- A tile of scores ----

// Queries [query, query + queries) and keys [key, key + keys) of one head. Scores are [key][query], `pitch` apart.
// Neither range crosses a multiple of 64.
struct Tile {
  int64_t query, queries, key, keys, pitch;
};

enum class Cover : uint8_t { empty, partial, full };  // which of its pairs positions and the block mask let through

// Scores of a row of a tile with `queries` columns.
template <class T>
HWY_INLINE int64_t pitch_of(const Problem<T>& p, int64_t queries) {
  const int64_t step = p.score_mod || p.block_mask ? HWY_MAX(lanes<T>(), int64_t{kScoreLanes}) : lanes<T>();
  return (queries + step - 1) / step * step;
}

template <class T>
HWY_INLINE Cover cover_of(const Head<T>& head, const Tile& tile) {
  const int64_t last = tile.query + tile.queries - 1, end = tile.key + tile.keys;
  if (head.key_end(last) <= tile.key || head.key_begin(tile.query) >= end) return Cover::empty;
  TileClass open = TileClass::full;
  if (head.block_mask)
    open = head.block_mask->at(head.place.batch, head.place.head, (head.place.query + tile.query) / kTile,
                               (head.place.key + tile.key) / kTile);
  if (open == TileClass::empty) return Cover::empty;
  const bool all = head.key_begin(last) <= tile.key && head.key_end(tile.query) >= end;
  return all && open == TileClass::full ? Cover::full : Cover::partial;
}

// The keys of [key, end), a piece of one tile of keys, that some of the queries see by position.
template <class T>
HWY_INLINE Tile clipped(const Head<T>& head, int64_t query, int64_t queries, int64_t key, int64_t end, int64_t pitch) {
  const int64_t first = HWY_MAX(key, head.key_begin(query));
  return {query, queries, first, HWY_MIN(end, head.key_end(query + queries - 1)) - first, pitch};
}

// A tile of keys, and what groups of 64 queries that follow one another see of it.
template <int kGroups>
struct KeyTile {
  int64_t key, keys;  // [key, key + keys): none further on is seen by any
  Tile tiles[kGroups];
  Cover covers[kGroups];
};

// f(KeyTile) for tiles of keys of [key_begin, key_end), in order, that any of the queries [query_begin, query_end), up
// to kGroups groups of 64, may see. key_begin is a multiple of 64.
template <int kGroups, class T, class F>
HWY_INLINE void for_tiles(const Problem<T>& p, const Head<T>& head, int64_t query_begin, int64_t query_end,
                          int64_t key_begin, int64_t key_end, F&& f) {
  const int64_t first = HWY_MAX(key_begin, head.key_begin(query_begin));
  const int64_t last = HWY_MIN(key_end, head.key_end(query_end - 1));
  for (int64_t key = first / kKeyTile * kKeyTile; key < last; key += kKeyTile) {
    KeyTile<kGroups> at;
    at.key = key;
    at.keys = HWY_MIN(last - key, kKeyTile);
    bool any = false;
    for (int64_t query = query_begin, g = 0; query < query_end; query += kQueryTile, ++g) {
      const int64_t queries = HWY_MIN(query_end - query, kQueryTile);
      at.tiles[g] = clipped(head, query, queries, key, key + at.keys, pitch_of(p, queries));
      at.covers[g] = at.tiles[g].keys > 0 ? cover_of(head, at.tiles[g]) : Cover::empty;
      any |= at.covers[g] != Cover::empty;
    }
    if (any) f(at);
  }
}

// Queries of the tile that see any of its keys [key, key + keys), by position.
struct Range {
  int64_t begin, end;
};
template <class T>
HWY_INLINE Range queries_seeing(const Head<T>& head, const Tile& tile, int64_t key, int64_t keys = 1) {
  return {HWY_MAX(int64_t{0}, head.query_begin(tile.key + key) - tile.query),
          HWY_MIN(tile.queries, head.query_end(tile.key + key + keys - 1) - tile.query)};
}
// Keys of the tile that any of its queries [query, query + queries) sees, by position.
template <class T>
HWY_INLINE Range keys_seen(const Head<T>& head, const Tile& tile, int64_t query, int64_t queries = 1) {
  return {HWY_MAX(int64_t{0}, head.key_begin(tile.query + query) - tile.key),
          HWY_MIN(tile.keys, head.key_end(tile.query + query + queries - 1) - tile.key)};
}

// c (keys, queries) = or += rows (keys, depth) columns (depth, queries): q k^T or grad_out v^T, transposed. Columns
// that positions hide from a whole group of rows are left as they are.
template <class T>
HWY_INLINE void qk_tile(const Head<T>& head, const Tile& tile, Cover cover, Left<T, true> rows, Panels<T> columns,
                        int64_t depth, T* c, bool add = false) {
  const Matrix<T> to{c, tile.pitch};
  const int64_t step = columns.panel > kPanel<T> ? kPanel<T> : lanes<T>();
  if (cover == Cover::full) return product(tile.keys, tile.pitch, depth, rows, columns, to, add);
  for (int64_t j = 0; j < tile.keys; j += kMaxRows) {
    const int64_t n = HWY_MIN(tile.keys - j, int64_t{kMaxRows});
    const Range range = queries_seeing(head, tile, j, n);
    const int64_t first = range.begin / step * step, last = round_to_lanes<T>(range.end);
    if (last > first) product(n, last - first, depth, rows.from(j, 0), columns.from(0, first), to.from(j, first), add);
  }
}

// Whether dot_tile serves: rows of both as they are, of whole vectors, which hold four sums.
template <class T>
HWY_INLINE bool takes_dots(const Problem<T>& p) {
  return lanes<T>() >= 4 && p.Lq <= kFewQueries && p.q.storage == Storage::same && p.D % lanes<T>() == 0 && p.D > 0;
}

// qk_tile of few queries: lanes lie along the head, so q is not transposed. All pairs of the tile are computed; columns
// past the queries become 0.
template <class T>
HWY_INLINE void dot_tile(const Source<T>& q, const Tile& tile, Matrix<const T> k, int64_t depth, T factor,
                         T* HWY_RESTRICT scores) {
  const Lanes<T> d;
  // Whose sums are in registers, beside a vector of each query and one of a key.
  constexpr int kQueries = 4, kKeys = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
  for (int64_t i = 0; i < tile.queries; i += kQueries) {
    const T* query[kQueries];
    for (int64_t r = 0; r < kQueries; ++r) query[r] = q.direct(tile.query + HWY_MIN(i + r, tile.queries - 1));
    const auto keys = [&](auto count, int64_t j) HWY_ATTR {
      Vec<T> sum[count][kQueries];
      unroll<count>([&](auto n) HWY_ATTR { unroll<kQueries>([&](auto r) HWY_ATTR { sum[n][r] = hn::Zero(d); }); });
      for (int64_t c = 0; c < depth; c += lanes<T>()) {
        Vec<T> of_query[kQueries];
        unroll<kQueries>([&](auto r) HWY_ATTR { of_query[r] = hn::LoadU(d, query[r] + c); });
        unroll<count>([&](auto n) HWY_ATTR {
          const Vec<T> of_key = hn::LoadU(d, k.row(j + n) + c);
          unroll<kQueries>([&](auto r) HWY_ATTR { sum[n][r] = hn::MulAdd(of_query[r], of_key, sum[n][r]); });
        });
      }
      unroll<count>([&](auto n) HWY_ATTR { store_four_sums<T>(sum[n], scores + (j + n) * tile.pitch + i); });
    };
    int64_t j = 0;
    for (; j + kKeys <= tile.keys; j += kKeys) keys(std::integral_constant<int, kKeys>(), j);
    for (; kKeys > 2 && j + 2 <= tile.keys; j += 2) keys(std::integral_constant<int, 2>(), j);
    for (; j < tile.keys; ++j) keys(std::integral_constant<int, 1>(), j);
  }
  const Vec<T> scale = hn::Set(d, factor);
  for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
    const auto there = hn::FirstN(d, static_cast<size_t>(HWY_MAX(int64_t{0}, tile.queries - i)));
    for (int64_t at = i; at < tile.keys * tile.pitch; at += tile.pitch)
      hn::StoreU(hn::IfThenElseZero(there, hn::Mul(scale, hn::LoadU(d, scores + at))), d, scores + at);
  }
}

// out (queries, width) = or += weights^T values (keys, width); keys that positions hide from a whole group of rows are
// skipped.
template <class T>
HWY_INLINE void pv_tile(const Head<T>& head, const Tile& tile, Cover cover, const T* weights,
                        std::type_identity_t<Panels<T>> values, int64_t width, Matrix<T> out, bool add) {
  const Left<T, false> left{weights, tile.pitch};
  if (cover == Cover::full) return product(tile.queries, width, tile.keys, left, values, out, add);
  for (int64_t i = 0; i < tile.queries; i += kMaxRows) {
    const int64_t n = HWY_MIN(tile.queries - i, int64_t{kMaxRows});
    const Range range = keys_seen(head, tile, i, n);
    const int64_t depth = HWY_MAX(int64_t{0}, range.end - range.begin), first = depth ? range.begin : 0;
    product(n, width, depth, left.from(i, first), values.from(first, 0), out.from(i, 0), add);
  }
}

// Memory of the functions that change scores: two tiles, where the head's options need them.
template <class T>
struct ModScratch {
  T* mask = nullptr;         // (64, 64)
  T* derivatives = nullptr;  // (64, 64): of the score_mod alone, in backward with a softcap in front of it
};

template <class T>
HWY_INLINE ScoreTile<T> score_tile(const Head<T>& head, const Tile& tile, T* scores, T* derivatives = nullptr) {
  ScoreTile<T> t;
  t.batch = static_cast<int32_t>(head.place.batch);
  t.head = static_cast<int32_t>(head.place.head);
  t.query = static_cast<int32_t>(head.place.query + tile.query);
  t.key = static_cast<int32_t>(head.place.key + tile.key);
  t.queries = static_cast<int32_t>(tile.queries);
  t.keys = static_cast<int32_t>(tile.keys);
  t.pitch = tile.pitch;
  t.scores = scores;
  t.derivatives = derivatives;
  return t;
}

// What softmax sees of a score: ALiBi, the mask, and -inf where positions hide the key. One pipeline for scores in
// tiles and in rows.
template <class T>
struct Bias {
  bool alibi, mask, limited;
  Vec<T> slope, hidden;

  Bias(const Head<T>& head, bool limits) : alibi(head.has_alibi), mask(head.mask), limited(limits) {
    const Lanes<T> d;
    slope = hn::Set(d, head.alibi);
    hidden = hn::Set(d, -static_cast<T>(INFINITY));
  }
  bool changes() const { return alibi || mask || limited; }
  // `distance` from key to query, either way round; `added` by the mask; `outside` of the positions that the query
  // sees.
  template <class M>
  HWY_INLINE Vec<T> operator()(Vec<T> score, Vec<T> distance, Vec<T> added, M outside) const {
    if (alibi) score = hn::NegMulAdd(slope, hn::Abs(distance), score);
    if (mask) score = hn::IfThenElse(hn::Eq(added, hidden), hidden, hn::Add(score, added));
    return limited ? hn::IfThenElse(outside, hidden, score) : score;
  }
};

// scores = cap * tanh(scores / cap). Derivatives, where wanted, are assigned.
template <class T>
void apply_softcap(const Head<T>& head, const Tile& tile, T* HWY_RESTRICT scores, T* HWY_RESTRICT derivatives) {
  if (head.softcap == 0) return;
  const Lanes<T> d;
  const Vec<T> cap = hn::Set(d, head.softcap), inverse = hn::Set(d, 1 / head.softcap);
  for (int64_t at = 0; at < tile.keys * tile.pitch; at += lanes<T>()) {
    const Vec<T> t = tanh<T>(hn::Mul(hn::LoadU(d, scores + at), inverse));
    hn::StoreU(hn::Mul(cap, t), d, scores + at);
    if (derivatives) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, T{1})), d, derivatives + at);
  }
}

// The caller's function. Derivatives, where wanted, are multiplied by its own, or assigned where there is no softcap.
template <class T>
void apply_score_mod(const Head<T>& head, const Tile& tile, T* scores, T* derivatives, T* own) {
  if (!head.score_mod) return;
  const Lanes<T> d;
  const bool chain = derivatives && head.softcap != 0;
  (*head.score_mod)(score_tile(head, tile, scores, chain ? own : derivatives));
  for (int64_t at = 0; chain && at < tile.keys * tile.pitch; at += lanes<T>())
    hn::StoreU(hn::Mul(hn::LoadU(d, derivatives + at), hn::LoadU(d, own + at)), d, derivatives + at);
}

// What the mask adds, laid out like the scores; -inf hides.
template <class T>
void load_mask(const Head<T>& head, const Tile& tile, T* HWY_RESTRICT to) {
  const Lanes<T> d;
  const T hidden = -static_cast<T>(INFINITY);
  const int64_t at = tile.query * head.mask_query + tile.key * head.mask_key;
  const bool* const open = static_cast<const bool*>(head.mask) + at;  // where it is boolean
  const T* const added = static_cast<const T*>(head.mask) + at;       // where it is not
  const bool boolean = head.mask_boolean;
  if (head.mask_query == 0) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      const int64_t n = j * head.mask_key;
      const Vec<T> x = hn::Set(d, boolean ? (open[n] ? T{0} : hidden) : added[n]);
      for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) hn::StoreU(x, d, to + j * tile.pitch + i);
    }
  } else if (head.mask_key == 1 && !boolean) {
    transpose<true>(tile.queries, tile.keys, added, head.mask_query, T{1}, to, tile.pitch);
  } else {
    HWY_ALIGN T rows[kQueryTile * kKeyTile];  // (queries, keys)
    for (int64_t i = 0; i < tile.queries; ++i) {
      T* const row = rows + i * kKeyTile;
      const int64_t n = i * head.mask_query, step = head.mask_key;
      if (boolean && step == 1)
        for (int64_t j = 0; j < tile.keys; ++j) row[j] = open[n + j] ? T{0} : hidden;
      else if (boolean)
        for (int64_t j = 0; j < tile.keys; ++j) row[j] = open[n + j * step] ? T{0} : hidden;
      else
        for (int64_t j = 0; j < tile.keys; ++j) row[j] = added[n + j * step];
    }
    transpose<true>(tile.queries, tile.keys, rows, kKeyTile, T{1}, to, tile.pitch);
  }
}

// Adds mask and ALiBi and writes -inf where a key is hidden, whatever stood there.
template <class T>
void apply_bias(const Head<T>& head, const Tile& tile, Cover cover, T* HWY_RESTRICT mask, T* HWY_RESTRICT scores) {
  const Bias<T> bias(head, cover == Cover::partial && head.has_limits());
  if (bias.changes()) {
    const Lanes<T> d;
    if (head.mask) load_mask(head, tile, mask);
    for (int64_t j = 0; j < tile.keys; ++j) {
      const Range seeing = bias.limited ? queries_seeing(head, tile, j) : Range{0, tile.pitch};
      const Vec<T> first = hn::Set(d, static_cast<T>(seeing.begin)), end = hn::Set(d, static_cast<T>(seeing.end));
      const Vec<T> distance = hn::Set(d, static_cast<T>(tile.query + head.offset - tile.key - j));
      for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
        T* const at = scores + j * tile.pitch + i;
        const Vec<T> query = count_from(d, static_cast<T>(i));
        const Vec<T> added = head.mask ? hn::LoadU(d, mask + j * tile.pitch + i) : hn::Zero(d);
        const auto outside = hn::Or(hn::Lt(query, first), hn::Ge(query, end));
        hn::StoreU(bias(hn::LoadU(d, at), hn::Add(query, distance), added, outside), d, at);
      }
    }
  }
  if (head.block_mask && cover == Cover::partial) (*head.block_mask)(score_tile(head, tile, scores));
}

// From products to the scores that softmax sees. Derivatives, where given and where head.is_modified(), are assigned.
template <class T>
HWY_INLINE void apply_mods(const Head<T>& head, const Tile& tile, Cover cover, const ModScratch<T>& scratch, T* scores,
                           T* derivatives = nullptr) {
  if (cover == Cover::full && !head.is_modified() && !head.mask && !head.has_alibi) return;
  apply_softcap(head, tile, scores, derivatives);
  apply_score_mod(head, tile, scores, derivatives, scratch.derivatives);
  apply_bias(head, tile, cover, scratch.mask, scores);
}

// Whether the tile may hold a pair that is hidden.
template <class T>
HWY_INLINE bool may_hide(const Head<T>& head, Cover cover) {
  return cover == Cover::partial || head.mask;
}

// ---- Dropout ----

// The draws of a quad of keys (dropout_draws) for the tile's queries: bit i of bits[w] says whether query i keeps the
// weight of the quad's key w.
template <class T>
HWY_INLINE void draw_quad(const Head<T>& head, const Dropout& dropout, const Tile& tile, int64_t quad,
                          uint64_t (&bits)[4]) {
  const int64_t first = head.place.query + tile.query;
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < tile.queries; ++i) {
    const PhiloxCounter draws = dropout_draws(dropout, head.number, first + i, quad);
    for (size_t w = 0; w < 4; ++w) bits[w] |= uint64_t{draws[w] < dropout.threshold} << i;
  }
#else
  const Lanes<uint64_t> d;
  const Lanes<int64_t> di;
  constexpr int64_t N = lanes<uint64_t>();
  const auto threshold = hn::Set(di, static_cast<int64_t>(dropout.threshold));
  const auto number = hn::Set(d, static_cast<uint64_t>(head.number)), upper = hn::ShiftRight<32>(number);
  const auto counters = [&](int64_t i) HWY_ATTR {
    return PhiloxBlocks{hn::Set(d, static_cast<uint64_t>(quad)), count_from(d, static_cast<uint64_t>(first + i)),
                        number, upper};
  };
  const auto add = [&](const PhiloxBlocks& drawn, int64_t i) HWY_ATTR {
    const Vec<uint64_t> words[4] = {drawn.c0, drawn.c1, drawn.c2, drawn.c3};
    unroll<4>([&](auto w) HWY_ATTR {
      uint8_t kept[8] = {};
      hn::StoreMaskBits(di, philox_below(words[w], threshold), kept);
      bits[w] |= uint64_t{kept[0]} << i;
    });
  };
  for (int64_t i = 0; i < tile.pitch; i += 2 * N) {
    PhiloxBlocks a = counters(i), b = counters(i + N);
    philox_draw(dropout.key, a, b);
    add(a, i);
    if (i + N < kQueryTile) add(b, i + N);
  }
#endif
}

// kept (keys of the tile): bit i of kept[j] says whether query i keeps the weight of key j.
template <class T>
void draw_kept(const Head<T>& head, const Dropout& dropout, const Tile& tile, uint64_t* HWY_RESTRICT kept) {
  const int64_t first = head.place.key + tile.key;
  for (int64_t quad = first / 4; 4 * quad < first + tile.keys; ++quad) {
    uint64_t bits[4] = {};
    draw_quad(head, dropout, tile, quad, bits);
    for (int64_t w = 0; w < 4; ++w)
      if (const int64_t j = 4 * quad + w - first; j >= 0 && j < tile.keys) kept[j] = bits[w];
  }
}

// The lanes of a vector of queries, from the i-th of the tile, whose bits are set.
template <class T>
HWY_INLINE auto lanes_of_bits(uint64_t bits, int64_t i) {
  const uint64_t from = bits >> i;
  return hn::LoadMaskBits(Lanes<T>(), reinterpret_cast<const uint8_t*>(&from));
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_TILE_INL_H_
