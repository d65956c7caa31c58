// Backward: weights are computed again from lse, tile by tile (Dao et al. 2022, "FlashAttention", algorithm 4).
#if defined(HEED_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_INL_H_
#undef HEED_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "attention/reference.h"
#include "attention/scratch.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kKeyChunk = 8 * kKeyTile;  // keys whose gradients stay in the second-level cache

// Memory of one thread.
template <class T>
struct BackwardScratch {
  T* q_columns;     // (D, 64): a tile's queries transposed, times scale * log2(e)
  T* grad_columns;  // (Dv, 64): their output gradients transposed
  T* q_rows;        // (64, D up to lanes)
  T* grad_rows;     // (64, Dv up to lanes)
  T* k_rows;        // (64, D up to lanes)
  T* lse;           // (64) in units of log 2; +inf for a row that saw nothing
  T* delta;         // (64) sum over Dv of grad_out * out
  T* weights;       // (64 keys, 64 queries): scores, then weights, then those after dropout
  T* dscores;       // likewise
  T* mask;          // likewise
  T* factors;       // likewise: dropout
  T* dq;            // (64, D up to lanes)
  T* dk;            // (512, D up to lanes)
  T* dv;            // (512, Dv up to lanes)

  static int64_t bytes(const Problem<T>& p) {
    int64_t total = 0;
    BackwardScratch().each(p, [&](T*&, int64_t n) { total += Scratch::bytes_of<T>(n); });
    return total;
  }
  BackwardScratch(const Problem<T>& p, Scratch& scratch) {
    each(p, [&](T*& piece, int64_t n) { piece = scratch.take<T>(n); });
  }

 private:
  BackwardScratch() = default;
  template <class F>
  void each(const Problem<T>& p, F&& f) {
    const int64_t columns = HWY_MIN(round_to_lanes<T>(p.Lq), kQueryTile), keys = HWY_MIN(p.Lk, kKeyTile);
    const int64_t width = round_to_lanes<T>(p.D), width_v = round_to_lanes<T>(p.Dv);
    f(q_columns, p.D * columns);
    f(grad_columns, p.Dv * columns);
    f(q_rows, columns * width);
    f(grad_rows, columns * width_v);
    f(k_rows, keys * width);
    f(lse, columns);
    f(delta, columns);
    f(weights, keys * columns);
    f(dscores, keys * columns);
    f(mask, p.mask.present ? keys * columns : 0);
    f(factors, p.dropout > 0 ? keys * columns : 0);
    f(dq, columns * width);
    f(dk, HWY_MIN(p.Lk, kKeyChunk) * width);
    f(dv, HWY_MIN(p.Lk, kKeyChunk) * width_v);
  }
};

// Rows as whole vectors: the caller's memory where it serves, else a copy.
template <class T>
HWY_INLINE Matrix<const T> padded_rows(int64_t rows, int64_t width, const T* from, int64_t stride, T* copy) {
  if (width % lanes<T>() == 0 && (stride == width || rows <= 4 * kMaxRows)) return {from, stride};
  copy_padded(rows, width, from, stride, T{1}, copy, round_to_lanes<T>(width));
  return {copy, round_to_lanes<T>(width)};
}

template <class T>
HWY_INLINE T dot(const T* a, const T* b, int64_t n) {
  const Lanes<T> d;
  Vec<T> sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes<T>() <= n; i += lanes<T>()) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// What a tile of queries brings to every tile of keys.
template <class T>
void load_queries(const Backward<T>& p, const BackwardScratch<T>& s, int64_t b, int64_t h, int64_t begin,
                  int64_t queries) {
  const int64_t pitch = round_to_lanes<T>(queries);
  transpose<true>(queries, p.D, p.q.at(b, h, begin), p.q.row, static_cast<T>(p.scale * kLog2E), s.q_columns, pitch);
  transpose<true>(queries, p.Dv, p.grad_out.at(b, h, begin), p.grad_out.row, T{1}, s.grad_columns, pitch);
  const T* const lse = p.lse + (b * p.Hq + h) * p.Lq + begin;
  for (int64_t i = 0; i < pitch; ++i) {
    const bool empty = i >= queries || lse[i] == -static_cast<T>(INFINITY);
    s.lse[i] = empty ? static_cast<T>(INFINITY) : lse[i] * static_cast<T>(kLog2E);
    s.delta[i] = i < queries ? dot(p.grad_out.at(b, h, begin + i), p.out.at(b, h, begin + i), p.Dv) : T{0};
  }
}

// s.dscores = d loss / d score and s.weights = weights after dropout, for a tile whose queries are loaded. Exactly 0
// where a key is hidden.
template <class T>
void score_gradients(const Backward<T>& p, const Dropout& dropout, const BackwardScratch<T>& s, const Tile& tile,
                     bool diagonal) {
  const Lanes<T> d;
  const int64_t hkv = tile.h / p.group();
  qk_tile(p, tile, diagonal, {p.k.at(tile.b, hkv, tile.key), p.k.row}, {s.q_columns, tile.pitch}, p.D, s.weights);
  qk_tile(p, tile, diagonal, {p.v.at(tile.b, hkv, tile.key), p.v.row}, {s.grad_columns, tile.pitch}, p.Dv, s.dscores);
  if (diagonal || p.mask.present) apply_mods(p, tile, diagonal, s.mask, s.weights);
  if (p.dropout > 0) dropout_factors(p, dropout, tile, s.factors);
  const Vec<T> nothing = hn::Set(d, -static_cast<T>(INFINITY));
  for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
    const Vec<T> lse = hn::LoadU(d, s.lse + i), delta = hn::LoadU(d, s.delta + i);
    for (int64_t at = i; at < tile.keys * tile.pitch; at += tile.pitch) {
      const Vec<T> score = hn::LoadU(d, s.weights + at);
      const auto hidden = hn::Eq(score, nothing);
      Vec<T> weight = hn::IfThenZeroElse(hidden, exp2<T>(hn::Sub(score, lse)));
      Vec<T> gradient = hn::LoadU(d, s.dscores + at);  // of the weight
      Vec<T> kept = weight;
      if (p.dropout > 0) {
        const Vec<T> factor = hn::LoadU(d, s.factors + at);
        gradient = hn::Mul(gradient, factor);
        kept = hn::Mul(weight, factor);
      }
      // Softmax: d score = weight * (d weight - sum of weight * d weight).
      gradient = hn::IfThenZeroElse(hidden, hn::Mul(weight, hn::Sub(gradient, delta)));
      hn::StoreU(kept, d, s.weights + at);
      hn::StoreU(gradient, d, s.dscores + at);
    }
  }
}

// dk or dv (keys, width) += scores (keys, queries) rows (queries, width); queries before the causal limit are skipped.
template <class T>
HWY_INLINE void add_key_gradient(const Problem<T>& p, const Tile& tile, bool diagonal, const T* scores,
                                 Matrix<const T> rows, int64_t width, Matrix<T> to) {
  const Left<T, true> left{scores, tile.pitch};
  if (!diagonal) return product(tile.keys, width, tile.queries, left, rows, to, true);
  for (int64_t j = 0; j < tile.keys; j += kMaxRows) {
    const int64_t first = first_query(p, tile, j);
    product(HWY_MIN(tile.keys - j, int64_t{kMaxRows}), width, tile.queries - first, left.from(j, first),
            rows.from(first, 0), to.from(j, 0), true);
  }
}

// Where a (b, h)'s rows of dq go: the caller's memory, or a partial sum (Hq/Hkv, Lq, D) of one range of keys.
template <class T>
struct QueryGradients {
  const Backward<T>& p;
  T* partial;
  void write(int64_t b, int64_t h, int64_t begin, int64_t rows, const T* from, int64_t stride, T factor,
             bool add) const {
    const bool own = partial != nullptr;
    T* const to = own ? partial + ((h % p.group()) * p.Lq + begin) * p.D : p.dq.at(b, h, begin);
    write_rows(rows, p.D, from, stride, factor, to, own ? p.D : p.dq.row, add);
  }
};

// Keys [begin, end), at most kKeyChunk, of one key head: assigns dk and dv, adds to (or, when first, assigns) dq.
template <class T>
void backward_chunk(const Backward<T>& p, const Dropout& dropout, const BackwardScratch<T>& s, int64_t b, int64_t hkv,
                    int64_t begin, int64_t end, const QueryGradients<T>& dq, bool first) {
  const int64_t width = round_to_lanes<T>(p.D), width_v = round_to_lanes<T>(p.Dv);
  const Matrix<T> dk{s.dk, width}, dv{s.dv, width_v};
  const int64_t visited = HWY_MAX(begin, HWY_MIN(end, p.keys(b)));
  std::fill_n(s.dk, (visited - begin) * width, T{0});
  std::fill_n(s.dv, (visited - begin) * width_v, T{0});
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group(); ++h) {
    for (int64_t query = 0; query < p.Lq; query += kQueryTile) {
      const int64_t queries = HWY_MIN(p.Lq - query, kQueryTile), pitch = round_to_lanes<T>(queries);
      const int64_t key_end = HWY_MIN(visited, p.key_end(b, query + queries - 1));
      std::fill_n(s.dq, first || key_end > begin ? queries * width : 0, T{0});
      if (key_end > begin) {
        load_queries(p, s, b, h, query, queries);
        const Matrix<const T> q_rows = padded_rows(queries, p.D, p.q.at(b, h, query), p.q.row, s.q_rows);
        const Matrix<const T> grad_rows =
            padded_rows(queries, p.Dv, p.grad_out.at(b, h, query), p.grad_out.row, s.grad_rows);
        for (int64_t key = begin; key < key_end; key += kKeyTile) {
          const Tile tile{b, h, query, queries, key, HWY_MIN(key_end - key, kKeyTile), pitch};
          const bool diagonal = is_diagonal(p, tile);
          const Matrix<const T> k_rows = padded_rows(tile.keys, p.D, p.k.at(b, hkv, key), p.k.row, s.k_rows);
          score_gradients(p, dropout, s, tile, diagonal);
          add_key_gradient(p, tile, diagonal, s.weights, grad_rows, width_v, dv.from(key - begin, 0));
          add_key_gradient(p, tile, diagonal, s.dscores, q_rows, width, dk.from(key - begin, 0));
          pv_tile(p, tile, diagonal, s.dscores, k_rows, width, Matrix<T>{s.dq, width}, true);
        }
      }
      if (first || key_end > begin) dq.write(b, h, query, queries, s.dq, width, static_cast<T>(p.scale), !first);
    }
  }
  write_rows(visited - begin, p.D, s.dk, width, static_cast<T>(p.scale), p.dk.at(b, hkv, begin), p.dk.row, false);
  write_rows(visited - begin, p.Dv, s.dv, width_v, T{1}, p.dv.at(b, hkv, begin), p.dv.row, false);
  for (int64_t j = visited; j < end; ++j) {
    std::fill_n(p.dk.at(b, hkv, j), p.D, T{0});
    std::fill_n(p.dv.at(b, hkv, j), p.Dv, T{0});
  }
}

// Whether a NaN or Inf could reach a gradient through a hidden pair, as 0 * NaN.
template <class T>
bool needs_care(const Backward<T>& p, int64_t b, int64_t hkv, int64_t begin, int64_t end) {
  if (!p.mask.present && p.causal == Causal::none) return false;
  const int64_t keys = HWY_MIN(end, p.keys(b)) - begin;
  if (keys <= 0) return false;
  bool finite = all_finite(keys, p.D, p.k.at(b, hkv, begin), p.k.row);
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group(); ++h)
    finite = finite && all_finite(p.Lq, p.D, p.q.at(b, h, 0), p.q.row) &&
             all_finite(p.Lq, p.Dv, p.grad_out.at(b, h, 0), p.grad_out.row);
  return !finite;
}

// Keys [begin, end) of one key head.
template <class T>
void backward_keys(const Backward<T>& p, const Dropout& dropout, const BackwardScratch<T>& s, int64_t b, int64_t hkv,
                   int64_t begin, int64_t end, const QueryGradients<T>& dq) {
  if (needs_care(p, b, hkv, begin, end)) {
    const int64_t rows = p.group() * p.Lq;
    std::vector<double> sum(static_cast<size_t>(rows * p.D), 0.0);
    reference_backward_keys(p, b, hkv, begin, end, sum.data());
    const std::vector<T> rounded(sum.begin(), sum.end());
    for (int64_t g = 0; g < p.group(); ++g)
      dq.write(b, hkv * p.group() + g, 0, p.Lq, rounded.data() + g * p.Lq * p.D, p.D, T{1}, false);
    return;
  }
  int64_t chunk = begin;
  do {  // once even where there is no key: dq must become 0
    const int64_t chunk_end = HWY_MIN(end, chunk + kKeyChunk);
    backward_chunk(p, dropout, s, b, hkv, chunk, chunk_end, dq, chunk == begin);
    chunk = chunk_end;
  } while (chunk < end);
}

// The gradient of the mask: one more pass over the scores, since only few masks need it. A tile of work is a tile of
// the mask, summed in double over everything along which the mask is broadcast, always in the same order.
template <class T>
void mask_gradient(const Backward<T>& p, const Dropout& dropout, Executor& executor) {
  const int64_t* const sizes = p.mask_sizes;
  const bool has_queries = sizes[2] != 1 || p.Lq == 1, has_keys = sizes[3] != 1 || p.Lk == 1;
  const int64_t query_tiles = has_queries ? (p.Lq + kQueryTile - 1) / kQueryTile : 1;
  const int64_t key_tiles = has_keys ? (p.Lk + kKeyTile - 1) / kKeyTile : 1;
  parallel_for(executor, sizes[0] * sizes[1] * query_tiles * key_tiles, [&](int64_t unit) HWY_ATTR {
    const int64_t key_tile = unit % key_tiles, query_tile = unit / key_tiles % query_tiles;
    const int64_t mask_head = unit / (key_tiles * query_tiles);
    const int64_t mb = mask_head / sizes[1], mh = mask_head % sizes[1];
    // The tile's place: from this entry, head, query and key, up to the next tile or the end.
    const int64_t query_begin = has_queries ? query_tile * kQueryTile : 0;
    const int64_t query_end = has_queries ? HWY_MIN(p.Lq, query_begin + kQueryTile) : p.Lq;
    const int64_t key_begin = has_keys ? key_tile * kKeyTile : 0;
    const int64_t key_end = has_keys ? HWY_MIN(p.Lk, key_begin + kKeyTile) : p.Lk;
    Scratch scratch(BackwardScratch<T>::bytes(p));
    const BackwardScratch<T> s(p, scratch);
    std::vector<double> sums(static_cast<size_t>(kQueryTile * kKeyTile), 0.0);  // (keys, queries) of the mask's tile
    for (int64_t b = mb; b < (sizes[0] == 1 ? p.B : mb + 1); ++b) {
      for (int64_t h = mh; h < (sizes[1] == 1 ? p.Hq : mh + 1); ++h) {
        for (int64_t query = query_begin; query < query_end; query += kQueryTile) {
          const int64_t queries = HWY_MIN(query_end - query, kQueryTile), pitch = round_to_lanes<T>(queries);
          load_queries(p, s, b, h, query, queries);
          const int64_t last = HWY_MIN(key_end, p.key_end(b, query + queries - 1));
          for (int64_t key = key_begin; key < last; key += kKeyTile) {
            const Tile tile{b, h, query, queries, key, HWY_MIN(last - key, kKeyTile), pitch};
            score_gradients(p, dropout, s, tile, is_diagonal(p, tile));
            for (int64_t j = 0; j < tile.keys; ++j)
              for (int64_t i = 0; i < queries; ++i)
                sums[static_cast<size_t>((has_keys ? j : 0) * kQueryTile + (has_queries ? i : 0))] +=
                    static_cast<double>(s.dscores[j * pitch + i]);
          }
        }
      }
    }
    for (int64_t j = 0; j < (has_keys ? key_end - key_begin : 1); ++j)
      for (int64_t i = 0; i < (has_queries ? query_end - query_begin : 1); ++i)
        p.dmask[p.dmask_offset(mb, mh, query_begin + i, key_begin + j)] =
            static_cast<T>(sums[static_cast<size_t>(j * kQueryTile + i)]);
  });
}

template <class T>
void run_backward(const Backward<T>& p, Executor& executor) {
  const Dropout dropout = dropout_of(p);
  const int64_t heads = p.B * p.Hkv;
  if (heads > 0) {
    const int64_t rows = p.group() * p.Lq;
    // Few heads: cut the keys into ranges too, each with a dq of its own that is summed afterwards in fixed order.
    const int64_t chunks = (p.Lk + kKeyChunk - 1) / kKeyChunk;
    const int64_t ranges = HWY_MAX(int64_t{1}, HWY_MIN(HWY_MIN(64 / heads, chunks), int64_t{8}));
    const int64_t range = (chunks + ranges - 1) / ranges * kKeyChunk;
    const int64_t work = HWY_MAX(int64_t{1}, rows * p.Lk * (3 * p.D + 2 * p.Dv));
    const int64_t together = ranges > 1 ? 1 : HWY_MAX(int64_t{1}, (int64_t{1} << 21) / work);
    const int64_t units = heads * ranges;
    Scratch partial(ranges > 1 ? units * Scratch::bytes_of<T>(rows * p.D) : 0);
    T* const partials = ranges > 1 ? partial.take<T>(units * rows * p.D) : nullptr;  // (heads, ranges, Hq/Hkv, Lq, D)
    parallel_for(executor, (units + together - 1) / together, [&](int64_t tile) HWY_ATTR {
      Scratch scratch(BackwardScratch<T>::bytes(p));
      const BackwardScratch<T> s(p, scratch);
      for (int64_t unit = tile * together; unit < HWY_MIN(units, (tile + 1) * together); ++unit) {
        const int64_t head = unit / ranges, begin = unit % ranges * range;
        const QueryGradients<T> dq{p, partials ? partials + unit * rows * p.D : nullptr};
        backward_keys(p, dropout, s, head / p.Hkv, head % p.Hkv, HWY_MIN(begin, p.Lk), HWY_MIN(begin + range, p.Lk),
                      dq);
      }
    });
    if (partials) {
      parallel_for(executor, p.B * p.Hq, [&](int64_t head) HWY_ATTR {
        const int64_t b = head / p.Hq, h = head % p.Hq, hkv = h / p.group();
        for (int64_t r = 0; r < ranges; ++r) {
          const T* const from = partials + ((b * p.Hkv + hkv) * ranges + r) * rows * p.D;
          write_rows(p.Lq, p.D, from + h % p.group() * p.Lq * p.D, p.D, T{1}, p.dq.at(b, h, 0), p.dq.row, r > 0);
        }
      });
    }
  }
  if (p.dmask) mask_gradient(p, dropout, executor);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_BACKWARD_INL_H_
