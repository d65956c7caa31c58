// Backward: weights are computed again from lse, tile by tile (Dao et al. 2022, "FlashAttention", algorithm 4).
#if defined(HEED_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_INL_H_
#undef HEED_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <optional>

#include "attention/backward_schedule.h"
#include "attention/scratch.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kKeyChunk = 8 * kKeyTile;  // keys whose gradients stay in the second-level cache
constexpr int64_t kVisited = 32;             // tiles computed before the visitor sees them
constexpr int64_t kVisitedRun = 4;           // of them, those one thread computes one after another

// What is kept where while the schedule runs.
template <class T>
struct BackwardCut : BackwardSchedule {
  int64_t chunk;                           // keys whose gradients are summed in scratch
  bool sum_queries, sum_keys, sum_values;  // dq, dk or dv in half storage: summed as T first
  bool keep_queries = false;               // a tile of queries is prepared once for all chunks of keys
  bool whole_heads;                        // a thread computes all blocks of a head
  int64_t rows, key_rows;                  // of all q heads, of all k heads

  BackwardCut(const Backward<T>& p, int64_t threads) : BackwardSchedule(p) {
    whole_heads = ranges == 1 || suits_whole_heads(threads, !p.ragged);
    chunk = std::max<int64_t>(kTile, std::min(key_range, kKeyChunk));
    const bool one_chunk = ranges == 1 && p.Lk <= chunk;
    sum_queries = p.dq.storage != Storage::same && !one_chunk;
    sum_keys = p.dk.storage != Storage::same && ranges > 1;
    sum_values = p.dv.storage != Storage::same && ranges > 1;
    rows = p.ragged ? p.Hq * p.Tq : p.B * p.Hq * p.Lq;
    key_rows = p.ragged ? p.Hkv * p.Tk : heads * p.Lk;
    constexpr int64_t kMostShared = int64_t{48} << 20, kMostOwn = int64_t{8} << 20;  // bytes
    if (!one_chunk && !whole_heads)
      keep_queries = sums_bytes(p) + shared_tiles(p) * tile_bytes(p) <= kMostShared;
    else if (!one_chunk)
      keep_queries = own_tiles(p) * tile_bytes(p) <= kMostOwn;
  }
  /// One tile at a time, nothing summed: for the passes that only look at gradients of scores.
  BackwardCut alone() const {
    BackwardCut cut = *this;
    cut.ranges = 1;
    cut.whole_heads = true;
    cut.chunk = kTile;
    cut.keep_queries = cut.sum_queries = cut.sum_keys = cut.sum_values = false;
    return cut;
  }

  static int64_t columns(const Problem<T>& p) { return pitch_of(p, HWY_MIN(p.Lq, kQueryTile)); }
  /// Elements of a prepared tile of queries.
  static int64_t tile_elements(const Problem<T>& p) {
    return transposed_elements<T>(p.D, columns(p)) + transposed_elements<T>(p.Dv, columns(p)) + 3 * columns(p);
  }
  static int64_t tile_bytes(const Problem<T>& p) { return tile_elements(p) * static_cast<int64_t>(sizeof(T)) + 1; }
  static int64_t own_tiles(const Problem<T>& p) { return p.group() * ((p.Lq + kQueryTile - 1) / kQueryTile); }
  int64_t shared_tiles(const Problem<T>& p) const {
    return p.ragged ? p.Hq * (p.Tq / kQueryTile + p.B) : p.B * p.Hq * ((p.Lq + kQueryTile - 1) / kQueryTile);
  }
  /// Number of tile 0 of (b, h) among them. A ragged entry begins in the tile of its first token, moved on by one for
  /// each entry in front of it, so that no two entries share one.
  int64_t shared_tile(const Problem<T>& p, int64_t b, int64_t h) const {
    if (p.ragged) return h * (p.Tq / kQueryTile + p.B) + p.query_row(b) / kQueryTile + b;
    return (b * p.Hq + h) * ((p.Lq + kQueryTile - 1) / kQueryTile);
  }
  int64_t key_row(const Problem<T>& p, int64_t b, int64_t hkv) const {
    return p.ragged ? hkv * p.Tk + p.key_row(b) : (b * p.Hkv + hkv) * p.Lk;
  }
  int64_t sums_bytes(const Problem<T>& p) const {
    const int64_t queries = sum_queries && ranges > 1 ? rows * p.D : 0;
    const int64_t keys = sum_keys ? key_rows * p.D : 0, values = sum_values ? key_rows * p.Dv : 0;
    return (queries + keys + values) * static_cast<int64_t>(sizeof(T));
  }
};

// What a tile of queries brings to every tile of keys.
template <class T>
struct QueryTile {
  T* q;      // (D, pitch): transposed, times the scale of q k^T, as transposed() has it
  T* grad;   // (Dv, pitch): output gradients, likewise, times `scale`
  T* lse;    // (2, pitch) lse, +inf for a row that saw nothing; lse_low
  T* delta;  // (pitch) sum over Dv of grad_out * out, less grad_lse, times `scale`
};

// Prepared tiles of queries, and which of them are.
template <class T>
struct QueryTiles {
  T* data = nullptr;
  uint8_t* ready = nullptr;
  QueryTile<T> at(const Problem<T>& p, int64_t n) const {
    const int64_t columns = BackwardCut<T>::columns(p);
    T* const from = data + n * BackwardCut<T>::tile_elements(p);
    T* const grad = from + transposed_elements<T>(p.D, columns);
    T* const lse = grad + transposed_elements<T>(p.Dv, columns);
    return {from, grad, lse, lse + 2 * columns};
  }
};

// Memory of one thread.
template <class T>
struct BackwardScratch {
  T* queries;      // prepared tiles: one, or all of a key head
  uint8_t* ready;  // which of them are
  T* q_rows;       // (64, D up to lanes), packed in panels or not
  T* grad_rows;    // (64, Dv up to lanes), likewise
  T* out_rows;     // (64, Dv up to lanes)
  T* k_rows;       // (chunk, D up to lanes)
  T* v_rows;       // (chunk, Dv up to lanes)
  T* clean;        // (64, the wider of both): rows with the poisoned ones set to 0
  T* weights;      // (64 keys, 64 queries): scores, then weights, then those after dropout
  T* dscores;      // likewise
  T* derivatives;  // likewise: of softcap and score_mod
  T* dq;           // (64, D up to lanes)
  T* dk;           // (chunk, D up to lanes)
  T* dv;           // (chunk, Dv up to lanes)
  T* dq_sums;      // (Hq/Hkv, Lq, D)
  ModScratch<T> mods;

  static int64_t bytes(const Backward<T>& p, const BackwardCut<T>& cut) {
    int64_t total = 0;
    const auto count = [&]<class U>(U*&, int64_t n) { total += Scratch::bytes_of<U>(n); };
    BackwardScratch().each(p, cut, count);
    return total;
  }
  BackwardScratch(const Backward<T>& p, const BackwardCut<T>& cut, Scratch& scratch) {
    each(p, cut, [&]<class U>(U*& piece, int64_t n) { piece = scratch.take<U>(n); });
  }

 private:
  BackwardScratch() = default;
  template <class F>
  void each(const Backward<T>& p, const BackwardCut<T>& cut, F&& f) {
    const int64_t columns = cut.columns(p), tile = HWY_MIN(p.Lk, kKeyTile) * columns, keys = HWY_MIN(p.Lk, cut.chunk);
    const int64_t width = round_to_lanes<T>(p.D), width_v = round_to_lanes<T>(p.Dv);
    const int64_t kept = !cut.keep_queries ? 1 : cut.whole_heads ? cut.own_tiles(p) : 0;
    const auto widened = [](const Operand& operand, int64_t n) { return operand.storage == Storage::same ? 0 : n; };
    f(queries, kept * cut.tile_elements(p));
    f(ready, kept);
    f(q_rows, columns * panel_columns<T>(width));
    f(grad_rows, columns * panel_columns<T>(width_v));
    f(out_rows, widened(p.out, columns * width_v));
    f(k_rows, keys * width);
    f(v_rows, widened(p.v, keys * width_v));
    f(clean, kTile * HWY_MAX(width, width_v));
    f(weights, tile);
    f(dscores, tile);
    f(derivatives, p.softcap != 0 || p.score_mod ? tile : 0);
    f(dq, columns * width);
    f(dk, keys * width);
    f(dv, keys * width_v);
    f(dq_sums, cut.sum_queries && cut.ranges == 1 ? p.group() * p.Lq * p.D : 0);
    f(mods.mask, p.mask.present ? tile : 0);
    f(mods.derivatives, p.softcap != 0 && p.score_mod ? tile : 0);
  }
};

// One query head, and what backward reads of it.
template <class T>
struct BackwardHead {
  Head<T> head;
  Source<T> grad, out;  // (Lq, Dv)
  const T* lse;         // (Lq)
  const T* lse_low;     // likewise, or null
  const T* grad_lse;    // likewise, or null
  BackwardHead(const Backward<T>& p, int64_t b, int64_t h)
      : head(p.head(b, h)),
        grad(p.grad_out.template source<T>(b, h, p.query_row(b))),
        out(p.out.template source<T>(b, h, p.query_row(b))),
        lse(p.lse + p.lse_row(b, h)),
        lse_low(p.lse_low ? p.lse_low + p.lse_row(b, h) : nullptr),
        grad_lse(p.grad_lse ? p.grad_lse + p.lse_row(b, h) : nullptr) {}
};

template <class T>
HWY_INLINE T dot(const T* a, const T* b, int64_t n) {
  const Lanes<T> d;
  Vec<T> sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes<T>() <= n; i += lanes<T>()) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  T total = sum_of_lanes(d, sum);
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// delta (queries): sum over Dv of grad_out * out, less grad_lse.
template <class T>
HWY_INLINE void load_delta(const BackwardHead<T>& from, const BackwardScratch<T>& s, int64_t query, int64_t queries,
                           T* delta) {
  const int64_t width = from.head.Dv;
  const Matrix<const T> grad = load_rows(from.grad, query, queries, width, false, s.grad_rows);
  const Matrix<const T> out = load_rows(from.out, query, queries, width, false, s.out_rows);
  for (int64_t i = 0; i < queries; ++i)
    delta[i] = dot(grad.row(i), out.row(i), width) - (from.grad_lse ? from.grad_lse[query + i] : T{0});
}

// With the `scale` of q k^T, gradients of scores come out as those of q k^T itself, ready for the products.
template <class T>
void load_queries(const BackwardHead<T>& from, const BackwardScratch<T>& s, int64_t query, int64_t queries,
                  int64_t pitch, T scale, const QueryTile<T>& to) {
  transpose_rows(from.head.q, query, queries, from.head.D, from.head.scale, to.q, pitch);
  transpose_rows(from.grad, query, queries, from.head.Dv, scale, to.grad, pitch);
  load_delta(from, s, query, queries, to.delta);
  for (int64_t i = 0; i < queries; ++i) {
    const T lse = from.lse[query + i];
    to.lse[i] = lse == -static_cast<T>(INFINITY) ? static_cast<T>(INFINITY) : lse;
    to.lse[pitch + i] = from.lse_low ? from.lse_low[query + i] : T{0};
    to.delta[i] *= scale;
  }
  std::fill(to.lse + queries, to.lse + pitch, static_cast<T>(INFINITY));
  std::fill(to.lse + pitch + queries, to.lse + 2 * pitch, T{0});
  std::fill(to.delta + queries, to.delta + pitch, T{0});
}

// From scores and gradients of weights to weights after dropout and gradients of scores; exactly 0 where a pair is
// hidden. kPlain: nothing is, and there is no dropout. `kept`: draw_kept's, else null.
template <bool kPlain, class T>
HWY_INLINE void differentiate(const Tile& tile, const QueryTile<T>& rows, const T* HWY_RESTRICT derivatives,
                              const uint64_t* HWY_RESTRICT kept, T keep_scale, T* HWY_RESTRICT weights,
                              T* HWY_RESTRICT dscores, T* HWY_RESTRICT received) {
  const Lanes<T> d;
  const Vec<T> scale = hn::Set(d, keep_scale);
  const Vec<T> nothing = hn::Set(d, -static_cast<T>(INFINITY));
  const int64_t keys = tile.keys, pitch = tile.pitch;  // stores of vectors might alias tile's
  for (int64_t i = 0; i < pitch; i += lanes<T>()) {
    const Vec<T> lse = hn::LoadU(d, rows.lse + i), rest = hn::LoadU(d, rows.lse + pitch + i);
    const Vec<T> delta = hn::LoadU(d, rows.delta + i);
    for (int64_t j = 0, at = i; j < keys; ++j, at += pitch) {
      const Vec<T> score = hn::LoadU(d, weights + at);
      Vec<T> weight = exp_of_score(d, hn::Sub(hn::Sub(score, lse), rest));
      Vec<T> gradient = hn::LoadU(d, dscores + at);  // of the weight
      if constexpr (kPlain) {
        // Softmax: d score = weight * (d weight - sum of weight * d weight).
        gradient = hn::Mul(weight, hn::Sub(gradient, delta));
      } else {
        const auto hidden = hn::Eq(score, nothing);
        weight = hn::IfThenZeroElse(hidden, weight);
        const Vec<T> factor = kept ? hn::IfThenElseZero(lanes_of_bits<T>(kept[j], i), scale) : scale;
        gradient = hn::Mul(weight, hn::Sub(hn::Mul(gradient, factor), delta));
        if (derivatives) gradient = hn::Mul(gradient, hn::LoadU(d, derivatives + at));
        gradient = hn::IfThenZeroElse(hidden, gradient);
        weight = hn::Mul(weight, factor);
        if (received) hn::StoreU(hn::IfThenZeroElse(hidden, hn::LoadU(d, received + at)), d, received + at);
      }
      hn::StoreU(weight, d, weights + at);
      hn::StoreU(gradient, d, dscores + at);
    }
  }
}

// s.weights = weights after dropout, s.dscores = d loss / d score: with `chain` the score in front of softcap and
// score_mod, else the one behind them. `received`, where given, is assigned the scores that score_mod is handed.
template <class T>
void score_gradients(const Head<T>& head, const Dropout* dropout, const BackwardScratch<T>& s, const Tile& tile,
                     Cover cover, Matrix<const T> k, Matrix<const T> v, const QueryTile<T>& rows, bool chain,
                     T* received = nullptr) {
  qk_tile(head, tile, cover, {k.data, k.stride}, transposed<T>(rows.q, head.D, tile.pitch), head.D, s.weights);
  // In pieces, whose sums are rounded less: where a query sees few keys, this and delta are nearly the same.
  constexpr int64_t kDepth = 64;
  for (int64_t c = 0; c == 0 || c < head.Dv; c += kDepth)
    qk_tile(head, tile, cover, {v.data + c, v.stride}, transposed<T>(rows.grad, head.Dv, tile.pitch).from(c, 0),
            HWY_MIN(head.Dv - c, kDepth), s.dscores, c > 0);
  T* const derivatives = chain && head.is_modified() ? s.derivatives : nullptr;
  if (received) {
    apply_softcap(head, tile, s.weights, derivatives);
    std::copy_n(s.weights, tile.keys * tile.pitch, received);
    apply_score_mod(head, tile, s.weights, derivatives, s.mods.derivatives);
    apply_bias(head, tile, cover, s.mods.mask, s.weights);
  } else {
    apply_mods(head, tile, cover, s.mods, s.weights, derivatives);
  }
  if (!dropout && !received && !head.is_modified() && !may_hide(head, cover))
    return differentiate<true, T>(tile, rows, nullptr, nullptr, T{1}, s.weights, s.dscores, nullptr);
  uint64_t kept[kKeyTile];
  if (dropout) draw_kept(head, *dropout, tile, kept);
  differentiate<false>(tile, rows, derivatives, dropout ? kept : nullptr,
                       dropout ? static_cast<T>(dropout->keep_scale) : T{1}, s.weights, s.dscores, received);
}

// dk or dv (keys, width) = or += scores (keys, queries) rows (queries, width); queries that positions hide from a whole
// group of keys are skipped.
template <class T>
HWY_INLINE void add_key_gradient(const Head<T>& head, const Tile& tile, Cover cover, const T* scores,
                                 std::type_identity_t<Panels<T>> rows, int64_t width, Matrix<T> to, bool add) {
  const Left<T, true> left{scores, tile.pitch};
  if (cover == Cover::full) return product(tile.keys, width, tile.queries, left, rows, to, add);
  for (int64_t j = 0; j < tile.keys; j += kMaxRows) {
    const int64_t n = HWY_MIN(tile.keys - j, int64_t{kMaxRows});
    const Range range = queries_seeing(head, tile, j, n);
    const int64_t depth = HWY_MAX(int64_t{0}, range.end - range.begin), first = depth ? range.begin : 0;
    product(n, width, depth, left.from(j, first), rows.from(first, 0), to.from(j, 0), add);
  }
}

// Rows for a product in a tile that hides pairs: 0 * NaN would reach what does not see a poisoned row, so it becomes 0,
// and add_poisoned adds it where it is seen.
template <class T>
HWY_INLINE Panels<T> without(uint64_t poisoned, std::type_identity_t<Panels<T>> rows, int64_t n, int64_t width,
                             T* copy) {
  if (!poisoned) return rows;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < width; ++c) copy[i * width + c] = poisoned >> i & 1 ? T{0} : rows.at(i, c);
  return Matrix<const T>{copy, width};
}

// to += score * row for every pair that is visible and whose row is poisoned: a query's (to: of the keys) or a key's.
template <class T>
void add_poisoned(const Head<T>& head, const Tile& tile, uint64_t poisoned, bool of_queries, const T* scores,
                  std::type_identity_t<Panels<T>> rows, int64_t width, Matrix<T> to) {
  for (; poisoned; poisoned &= poisoned - 1) {
    const int64_t r = __builtin_ctzll(poisoned);
    for (int64_t n = 0; n < (of_queries ? tile.keys : tile.queries); ++n) {
      const int64_t i = of_queries ? r : n, j = of_queries ? n : r;
      if (!head.visible(tile.query + i, tile.key + j)) continue;
      for (int64_t c = 0; c < width; ++c) to.row(n)[c] += scores[j * tile.pitch + i] * rows.at(r, c);
    }
  }
}

template <class T>
HWY_INLINE void zero_rows(const Target<T>& to, int64_t first, int64_t rows, int64_t width) {
  const int64_t bytes = width * static_cast<int64_t>(to.storage == Storage::same ? sizeof(T) : sizeof(uint16_t));
  for (int64_t i = first; i < first + rows; ++i) std::memset(to.from(i).data, 0, static_cast<size_t>(bytes));
}

// Memory that the blocks of all phases share.
template <class T>
struct BackwardShared {
  T* dq = nullptr;  // (rows, D), (key_rows, D), (key_rows, Dv): sums of gradients that are kept in half
  T* dk = nullptr;
  T* dv = nullptr;
  QueryTiles<T> tiles;

  static int64_t bytes(const Backward<T>& p, const BackwardCut<T>& cut) {
    int64_t total = 0;
    BackwardShared().each(p, cut, [&]<class U>(U*&, int64_t n) { total += Scratch::bytes_of<U>(n); });
    return total;
  }
  BackwardShared(const Backward<T>& p, const BackwardCut<T>& cut, char* memory) {
    each(p, cut, [&]<class U>(U*& piece, int64_t n) {
      piece = n ? reinterpret_cast<U*>(memory) : nullptr;
      memory += Scratch::bytes_of<U>(n);
    });
  }

 private:
  BackwardShared() = default;
  template <class F>
  void each(const Backward<T>& p, const BackwardCut<T>& cut, F&& f) {
    if (cut.ranges == 1) return;
    const int64_t kept = cut.keep_queries && !cut.whole_heads ? cut.shared_tiles(p) : 0;
    f(dq, cut.sum_queries ? cut.rows * p.D : 0);
    f(dk, cut.sum_keys ? cut.key_rows * p.D : 0);
    f(dv, cut.sum_values ? cut.key_rows * p.Dv : 0);
    f(tiles.data, kept * cut.tile_elements(p));
    f(tiles.ready, kept);
  }
};

// What one call of backward is about.
template <class T>
struct BackwardCall {
  const Backward<T>& p;
  const BackwardCut<T>& cut;
  const BackwardShared<T>& shared;
  const Dropout* dropout;  // null without

  // Rows (Lq, D) that the gradients of q are summed in.
  Target<T> dq(int64_t b, int64_t h, const BackwardScratch<T>& s) const {
    if (shared.dq) return {shared.dq + p.lse_row(b, h) * p.D, p.D};
    if (cut.sum_queries) return {s.dq_sums + h % p.group() * p.Lq * p.D, p.D};
    return p.dq.template target<T>(b, h, p.query_row(b));
  }
  Target<T> dk(int64_t b, int64_t hkv) const {
    if (shared.dk) return {shared.dk + cut.key_row(p, b, hkv) * p.D, p.D};
    return p.dk.template target<T>(b, hkv, p.key_row(b));
  }
  Target<T> dv(int64_t b, int64_t hkv) const {
    if (shared.dv) return {shared.dv + cut.key_row(p, b, hkv) * p.Dv, p.Dv};
    return p.dv.template target<T>(b, hkv, p.key_row(b));
  }
};

// Whether products can be written to rows as they are.
template <class T>
HWY_INLINE bool serves(const Target<T>& target, int64_t width) {
  return target.storage == Storage::same && width % lanes<T>() == 0;
}

// At most a chunk of keys of one key head, and how far their gradients are.
template <class T>
struct KeyChunk {
  int64_t begin, end;
  int64_t D, Dv;
  int64_t width, width_v;  // D and Dv up to lanes
  Matrix<const T> k, v;    // (end - begin, width), (end - begin, Dv)
  Target<T> to_k, to_v;    // where the gradients go, or are added to
  Matrix<T> dk, dv;        // (end - begin, width or width_v): rows of to_k and to_v, or of a copy
  bool adds, copies;       // to what is there; by way of a copy
  uint64_t started;        // tiles whose gradients are assigned
  uint64_t checked = 0;    // tiles whose poisoned keys are known
  uint64_t poisoned[kKeyChunk / kKeyTile];

  KeyChunk(const Head<T>& head, const BackwardScratch<T>& s, int64_t first, int64_t last, const Target<T>& of_k,
           const Target<T>& of_v, bool add)
      : begin(first),
        end(last),
        D(head.D),
        Dv(head.Dv),
        width(round_to_lanes<T>(head.D)),
        width_v(round_to_lanes<T>(head.Dv)),
        k(load_rows(head.k, begin, end - begin, head.D, true, s.k_rows, end - begin > 4 * kMaxRows)),
        v(load_rows(head.v, begin, end - begin, head.Dv, false, s.v_rows)),
        to_k(of_k),
        to_v(of_v),
        adds(add) {
    // Rows far apart fall on the same sets of the caches: many of them are better added to elsewhere.
    const bool dense = to_k.row == head.D && to_v.row == head.Dv;
    copies = !(serves(to_k, head.D) && serves(to_v, head.Dv) && (dense || end - begin <= kKeyTile));
    dk = copies ? Matrix<T>{s.dk, width} : Matrix<T>{to_k.direct(begin), to_k.row};
    dv = copies ? Matrix<T>{s.dv, width_v} : Matrix<T>{to_v.direct(begin), to_v.row};
    started = !copies && add ? ~uint64_t{0} : 0;
  }

  int64_t number_of(int64_t key) const { return (key - begin) / kKeyTile; }
  int64_t tile_begin(int64_t number) const { return begin + number * kKeyTile; }
  int64_t tile_end(int64_t number) const { return HWY_MIN(end, begin + (number + 1) * kKeyTile); }

  int64_t tiles() const { return number_of(end - 1) + 1; }
  bool is_started(int64_t number) const { return started >> number & 1; }

  void zero(int64_t number) const {
    const int64_t at = number * kKeyTile, n = tile_end(number) - tile_begin(number);
    for (int64_t j = at; j < at + n; ++j) {
      std::fill_n(dk.row(j), width, T{0});
      std::fill_n(dv.row(j), width_v, T{0});
    }
  }
  void load(int64_t number) const {
    const int64_t first = tile_begin(number), n = tile_end(number) - first;
    copy_rows(Source<T>{to_k.data, to_k.row, to_k.storage}, first, n, D, dk.row(first - begin), dk.stride);
    copy_rows(Source<T>{to_v.data, to_v.row, to_v.storage}, first, n, Dv, dv.row(first - begin), dv.stride);
  }
  void store(int64_t number) const {
    const int64_t first = tile_begin(number), n = tile_end(number) - first;
    store_rows(to_k, first, n, D, dk.row(first - begin), dk.stride, T{1});
    store_rows(to_v, first, n, Dv, dv.row(first - begin), dv.stride, T{1});
  }
  /// Whether gradients of the tile's keys are to be added to. Those of keys that its first visit passes by become 0, or
  /// stay what they are. A copy begins with what is there, so that all is added in the same order with and without one.
  bool start(const Tile& tile) {
    const int64_t number = number_of(tile.key);
    const bool first = !is_started(number), whole = tile.keys == tile_end(number) - tile_begin(number);
    started |= uint64_t{1} << number;
    if (first && adds) load(number);
    if (first && !adds && !whole) zero(number);
    return adds || !first || !whole;
  }
  /// After the last tile.
  void finish() const {
    for (int64_t n = 0; n < tiles(); ++n) {
      if (!adds && !is_started(n)) zero(n);
      if (copies && (!adds || is_started(n))) store(n);
    }
  }
  /// A bit for every key of the tile that holds a NaN or Inf.
  uint64_t poisoned_keys(const Head<T>& head, const Tile& tile) {
    const int64_t number = number_of(tile.key), first = tile_begin(number);
    if (!(checked >> number & 1)) poisoned[number] = poisoned_rows(head.k, first, tile_end(number) - first, head.D);
    checked |= uint64_t{1} << number;
    const uint64_t bits = poisoned[number] >> (tile.key - first);
    return tile.keys < kKeyTile ? bits & ((uint64_t{1} << tile.keys) - 1) : bits;
  }
};

// A tile of queries: what score_gradients needs of it, and its rows for the products.
template <class T>
struct QueryRows {
  QueryTile<T> columns;
  Panels<T> q, grad;     // (queries, D or Dv up to lanes)
  bool checked = false;  // whether the next two are known
  uint64_t poisoned_q = 0, poisoned_grad = 0;

  QueryRows(const BackwardCall<T>& call, const BackwardHead<T>& from, const BackwardScratch<T>& s, int64_t query,
            int64_t queries) {
    const Backward<T>& p = call.p;
    const Head<T>& head = from.head;
    const bool keeps = call.cut.keep_queries, shares = call.shared.tiles.data;
    const int64_t before = head.h % p.group() * ((p.Lq + kQueryTile - 1) / kQueryTile);
    const int64_t n = !keeps ? 0 : (shares ? call.cut.shared_tile(p, head.b, head.h) : before) + query / kQueryTile;
    const QueryTiles<T> tiles = shares ? call.shared.tiles : QueryTiles<T>{s.queries, s.ready};
    columns = tiles.at(p, n);
    if (!keeps || !tiles.ready[n]) load_queries(from, s, query, queries, pitch_of(p, queries), head.scale, columns);
    if (keeps) tiles.ready[n] = 1;
    const bool gather = queries > 4 * kMaxRows;
    q = load_panels(head.q, query, queries, p.D, s.q_rows, gather);
    grad = load_panels(from.grad, query, queries, p.Dv, s.grad_rows, gather);
  }
  void check(const BackwardHead<T>& from, const Tile& tile) {
    if (checked) return;
    poisoned_q = poisoned_rows(from.head.q, tile.query, tile.queries, from.head.D);
    poisoned_grad = poisoned_rows(from.grad, tile.query, tile.queries, from.head.Dv);
    checked = true;
  }
};

// Adds what a tile of scores brings to all three gradients; assigns dq (queries, D up to lanes) unless `add_queries`.
template <class T>
void add_tile(const BackwardCall<T>& call, const BackwardHead<T>& from, const BackwardScratch<T>& s, const Tile& tile,
              Cover cover, QueryRows<T>& rows, KeyChunk<T>& chunk, Matrix<T> dq, bool add_queries) {
  const Head<T>& head = from.head;
  const int64_t at = tile.key - chunk.begin, width = chunk.width, width_v = chunk.width_v;
  const Matrix<const T> k = chunk.k.from(at, 0);
  const Matrix<T> dk = chunk.dk.from(at, 0), dv = chunk.dv.from(at, 0);
  const bool add = chunk.start(tile);
  score_gradients(head, call.dropout, s, tile, cover, k, chunk.v.from(at, 0), rows.columns, true);
  uint64_t poisoned_k = 0;
  if (may_hide(head, cover)) {
    rows.check(from, tile);
    poisoned_k = chunk.poisoned_keys(head, tile);
    if (poisoned_k || rows.poisoned_q || rows.poisoned_grad) {
      const Panels<T> grad = without(rows.poisoned_grad, rows.grad, tile.queries, width_v, s.clean);
      add_key_gradient(head, tile, cover, s.weights, grad, width_v, dv, add);
      add_poisoned(head, tile, rows.poisoned_grad, true, s.weights, rows.grad, head.Dv, dv);
      const Panels<T> q = without(rows.poisoned_q, rows.q, tile.queries, width, s.clean);
      add_key_gradient(head, tile, cover, s.dscores, q, width, dk, add);
      add_poisoned(head, tile, rows.poisoned_q, true, s.dscores, rows.q, head.D, dk);
      pv_tile(head, tile, cover, s.dscores, without(poisoned_k, k, tile.keys, width, s.clean), width, dq, add_queries);
      return add_poisoned(head, tile, poisoned_k, false, s.dscores, k, head.D, dq);
    }
  }
  add_key_gradient(head, tile, cover, s.weights, rows.grad, width_v, dv, add);
  add_key_gradient(head, tile, cover, s.dscores, rows.q, width, dk, add);
  pv_tile(head, tile, cover, s.dscores, k, width, dq, add_queries);
}

// One tile of queries against a chunk of keys: assigns dq (queries, D up to lanes), or adds to it where `add`. False
// where it sees none of the keys; dq stays as it is.
template <class T>
bool pass_over_keys(const BackwardCall<T>& call, const BackwardHead<T>& from, const BackwardScratch<T>& s,
                    int64_t query, int64_t queries, KeyChunk<T>& chunk, Matrix<T> dq, bool add) {
  std::optional<QueryRows<T>> rows;
  for_tiles<1>(call.p, from.head, query, query + queries, chunk.begin, chunk.end, [&](const KeyTile<1>& at) HWY_ATTR {
    const bool add_queries = add || rows;
    if (!rows) rows.emplace(call, from, s, query, queries);
    add_tile(call, from, s, at.tiles[0], at.covers[0], *rows, chunk, dq, add_queries);
  });
  return rows.has_value();
}

// Keys [begin, end), at most a chunk, of one key head against queries [query_begin, query_end). `add_keys`, and
// `add_queries`: to dk and dv, and to dq; else they are assigned, and the keys are all that the queries see.
template <class T>
void backward_chunk(const BackwardCall<T>& call, const BackwardScratch<T>& s, int64_t b, int64_t hkv, int64_t begin,
                    int64_t end, int64_t query_begin, int64_t query_end, bool add_keys, bool add_queries) {
  const Backward<T>& p = call.p;
  const Target<T> to_k = call.dk(b, hkv), to_v = call.dv(b, hkv);
  std::optional<KeyChunk<T>> chunk;
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group(); ++h) {
    const BackwardHead<T> from(p, b, h);
    const Head<T>& head = from.head;
    const Target<T> to_q = call.dq(b, h, s);
    const bool direct = serves(to_q, p.D);
    if (!chunk) chunk.emplace(head, s, begin, end, to_k, to_v, add_keys);
    const int64_t first = HWY_MAX(query_begin, head.query_begin(begin) / kQueryTile * kQueryTile);
    const int64_t last = HWY_MIN(query_end, head.query_end(end - 1));
    int64_t done = query_begin;  // rows of dq that are assigned
    for (int64_t query = first; query < last; query += kQueryTile) {
      const int64_t queries = HWY_MIN(query_end - query, kQueryTile), width = chunk->width;
      const Matrix<T> dq = direct ? Matrix<T>{to_q.direct(query), to_q.row} : Matrix<T>{s.dq, width};
      if (!pass_over_keys(call, from, s, query, queries, *chunk, dq, direct && add_queries)) continue;
      if (!direct) store_rows(to_q, query, queries, p.D, s.dq, width, T{1}, add_queries);
      if (!add_queries) zero_rows(to_q, done, query - done, p.D);
      done = query + queries;
    }
    if (!add_queries) zero_rows(to_q, done, query_end - done, p.D);
  }
  chunk->finish();
}

// Keys that the operand of entry b has, whether any query may see them or not.
template <class T>
HWY_INLINE int64_t operand_keys(const Backward<T>& p, int64_t b) {
  return p.ragged ? p.keys(b) : p.Lk;
}

// A whole key head.
template <class T>
void backward_head(const BackwardCall<T>& call, const BackwardScratch<T>& s, int64_t b, int64_t hkv) {
  const Backward<T>& p = call.p;
  const Head<T> head = p.head(b, hkv * p.group());
  const bool one_chunk = head.Lk > 0 && head.Lk <= call.cut.chunk && !call.cut.sum_queries;
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group() && !one_chunk; ++h)
    zero_rows(call.dq(b, h, s), 0, head.Lq, p.D);
  if (call.cut.keep_queries) std::fill_n(s.ready, call.cut.own_tiles(p), uint8_t{0});
  for (int64_t key = 0; key < head.Lk; key += call.cut.chunk)
    backward_chunk(call, s, b, hkv, key, HWY_MIN(head.Lk, key + call.cut.chunk), 0, head.Lq, false, !one_chunk);
  zero_rows(call.dk(b, hkv), head.Lk, operand_keys(p, b) - head.Lk, p.D);
  zero_rows(call.dv(b, hkv), head.Lk, operand_keys(p, b) - head.Lk, p.Dv);
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group() && call.cut.sum_queries; ++h)
    store_rows(p.dq.template target<T>(b, h, p.query_row(b)), 0, head.Lq, p.D, call.dq(b, h, s).direct(0), p.D, T{1});
}

// Key range r against query range t.
template <class T>
void backward_block(const BackwardCall<T>& call, const BackwardScratch<T>& s, int64_t b, int64_t hkv, int64_t r,
                    int64_t t) {
  const BackwardCut<T>& cut = call.cut;
  const Head<T> head = call.p.head(b, hkv * call.p.group());
  const int64_t begin = r * cut.key_range, end = HWY_MIN(head.Lk, begin + cut.key_range);
  const int64_t query_begin = t * cut.query_range, query_end = HWY_MIN(head.Lq, query_begin + cut.query_range);
  if (query_begin >= query_end) return;
  for (int64_t key = begin; key < end; key += cut.chunk)
    backward_chunk(call, s, b, hkv, key, HWY_MIN(end, key + cut.chunk), query_begin, query_end, true, true);
}

// Calls f(T's target of the call's sums, the caller's, rows, width) for the gradients of one key head.
template <class T, class F>
HWY_INLINE void each_gradient(const BackwardCall<T>& call, const BackwardScratch<T>& s, int64_t b, int64_t hkv, F&& f) {
  const Backward<T>& p = call.p;
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group(); ++h)
    f(call.dq(b, h, s), p.dq.template target<T>(b, h, p.query_row(b)), p.queries(b), p.D);
  f(call.dk(b, hkv), p.dk.template target<T>(b, hkv, p.key_row(b)), operand_keys(p, b), p.D);
  f(call.dv(b, hkv), p.dv.template target<T>(b, hkv, p.key_row(b)), operand_keys(p, b), p.Dv);
}

template <class T>
void input_gradients(const Backward<T>& p, const Dropout* dropout, Executor& executor) {
  const BackwardCut<T> cut(p, executor.threads());
  if (cut.heads == 0) return;
  const int64_t work = HWY_MAX(int64_t{1}, p.group() * p.Lq * p.Lk * (3 * p.D + 2 * p.Dv));
  // Short inputs: as many heads a tile as make about two million multiply-adds, so that dealing them out costs little.
  const int64_t together = cut.ranges > 1 ? 1 : HWY_MAX(int64_t{1}, (int64_t{1} << 21) / work);
  const int64_t units = cut.blocks(), tiles = (units + together - 1) / together;
  ScratchSlots slots(p.workspace, BackwardScratch<T>::bytes(p, cut), tiles, executor, BackwardShared<T>::bytes(p, cut));
  const BackwardShared<T> shared(p, cut, slots.shared());
  const BackwardCall<T> call{p, cut, shared, dropout};
  if (cut.ranges == 1) {
    return parallel_for(executor, tiles, [&](int64_t tile) HWY_ATTR {
      Scratch scratch(slots);
      const BackwardScratch<T> s(p, cut, scratch);
      for (int64_t n = tile * together; n < HWY_MIN(units, (tile + 1) * together); ++n)
        backward_head(call, s, n / p.Hkv, n % p.Hkv);
    });
  }
  const auto zero_sums = [](const Target<T>& sums, const Target<T>&, int64_t rows, int64_t width)
                             HWY_ATTR { zero_rows(sums, 0, rows, width); };
  const auto store_sums = [](const Target<T>& sums, const Target<T>& to, int64_t rows, int64_t width) HWY_ATTR {
    if (sums.data != to.data) store_rows(to, 0, rows, width, sums.direct(0), sums.row, T{1});
  };
  if (cut.whole_heads) {
    return parallel_for(executor, cut.heads, [&](int64_t n) HWY_ATTR {
      const int64_t b = n / p.Hkv, hkv = n % p.Hkv;
      Scratch scratch(slots);
      const BackwardScratch<T> s(p, cut, scratch);
      if (cut.keep_queries) std::fill_n(s.ready, cut.own_tiles(p), uint8_t{0});
      each_gradient(call, s, b, hkv, zero_sums);
      cut.each_block([&](int64_t r, int64_t t) HWY_ATTR { backward_block(call, s, b, hkv, r, t); });
      each_gradient(call, s, b, hkv, store_sums);
    });
  }
  const auto for_heads = [&](const auto& f) HWY_ATTR {
    parallel_for(executor, cut.heads, [&](int64_t n) HWY_ATTR {
      Scratch scratch(slots);
      each_gradient(call, BackwardScratch<T>(p, cut, scratch), n / p.Hkv, n % p.Hkv, f);
    });
  };
  if (shared.tiles.ready) std::fill_n(shared.tiles.ready, cut.shared_tiles(p), uint8_t{0});
  for_heads(zero_sums);
  for (int64_t phase = 0; phase < cut.phases(); ++phase) {
    if (cut.is_empty(p, phase)) continue;
    parallel_for(executor, units, [&](int64_t unit) HWY_ATTR {
      const int64_t n = unit % cut.heads, r = unit / cut.heads;
      Scratch scratch(slots);
      const BackwardScratch<T> s(p, cut, scratch);
      backward_block(call, s, n / p.Hkv, n % p.Hkv, r, cut.query_of(phase, r));
    });
  }
  if (cut.sum_queries || cut.sum_keys || cut.sum_values) for_heads(store_sums);
}

// One tile of gradients of scores, as score_mod returned them, in s.dscores; rows of queries as `loaded` says are
// there.
template <class T>
void tile_gradients(const Backward<T>& p, const Dropout* dropout, const BackwardScratch<T>& s,
                    const BackwardHead<T>& from, const Tile& tile, Cover cover, bool loaded, T* received = nullptr) {
  const QueryTile<T> rows = QueryTiles<T>{s.queries, s.ready}.at(p, 0);
  if (!loaded) load_queries(from, s, tile.query, tile.queries, tile.pitch, T{1}, rows);
  const Matrix<const T> k = load_rows(from.head.k, tile.key, tile.keys, p.D, false, s.k_rows);
  const Matrix<const T> v = load_rows(from.head.v, tile.key, tile.keys, p.Dv, false, s.v_rows);
  score_gradients(from.head, dropout, s, tile, cover, k, v, rows, false, received);
}

// The gradient of the mask: one more pass over the scores, since only few masks need it. A unit of work is a tile of
// the mask, summed in double over everything along which the mask is broadcast, always in the same order.
template <class T>
void mask_gradient(const Backward<T>& p, const Dropout* dropout, Executor& executor) {
  const int64_t* const sizes = p.mask_sizes;
  const bool has_queries = sizes[2] != 1, has_keys = sizes[3] != 1;
  const int64_t query_tiles = (sizes[2] + kQueryTile - 1) / kQueryTile;
  const int64_t key_tiles = (sizes[3] + kKeyTile - 1) / kKeyTile;
  const int64_t units = sizes[0] * sizes[1] * query_tiles * key_tiles;
  const BackwardCut<T> cut = BackwardCut<T>(p, 1).alone();
  const int64_t sums_bytes = Scratch::bytes_of<double>(kQueryTile * kKeyTile);
  ScratchSlots slots(p.workspace, BackwardScratch<T>::bytes(p, cut) + sums_bytes, units, executor);
  parallel_for(executor, units, [&](int64_t unit) HWY_ATTR {
    const int64_t key_tile = unit % key_tiles, query_tile = unit / key_tiles % query_tiles;
    const int64_t mb = unit / (key_tiles * query_tiles) / sizes[1], mh = unit / (key_tiles * query_tiles) % sizes[1];
    Scratch scratch(slots);
    const BackwardScratch<T> s(p, cut, scratch);
    double* const sums = scratch.take<double>(kQueryTile * kKeyTile);  // (keys, queries) of the mask's tile
    std::fill_n(sums, kQueryTile * kKeyTile, 0.0);
    for (int64_t b = mb; b < (sizes[0] == 1 ? p.B : mb + 1); ++b) {
      for (int64_t h = mh; h < (sizes[1] == 1 ? p.Hq : mh + 1); ++h) {
        const BackwardHead<T> from(p, b, h);
        const Head<T>& head = from.head;
        const int64_t query_begin = has_queries ? query_tile * kQueryTile : 0;
        const int64_t query_end = has_queries ? HWY_MIN(head.Lq, query_begin + kQueryTile) : head.Lq;
        const int64_t key_begin = has_keys ? key_tile * kKeyTile : 0;
        const int64_t key_end = has_keys ? HWY_MIN(head.Lk, key_begin + kKeyTile) : head.Lk;
        for (int64_t query = query_begin; query < query_end; query += kQueryTile) {
          const int64_t queries = HWY_MIN(query_end - query, kQueryTile);
          bool loaded = false;
          for_tiles<1>(p, head, query, query + queries, key_begin, key_end, [&](const KeyTile<1>& at) HWY_ATTR {
            const Tile& tile = at.tiles[0];
            tile_gradients(p, dropout, s, from, tile, at.covers[0], loaded);
            loaded = true;
            for (int64_t j = 0; j < tile.keys; ++j) {
              double* const row = sums + (has_keys ? tile.key + j - key_begin : 0) * kQueryTile;
              for (int64_t i = 0; i < queries; ++i)
                row[has_queries ? i : 0] += static_cast<double>(s.dscores[j * tile.pitch + i]);
            }
          });
        }
      }
    }
    const int64_t columns = HWY_MIN(sizes[2] - query_tile * kQueryTile, kQueryTile);
    const int64_t rows = HWY_MIN(sizes[3] - key_tile * kKeyTile, kKeyTile);
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t i = 0; i < columns; ++i)
        p.dmask[p.dmask_offset(mb, mh, query_tile * kQueryTile + i, key_tile * kKeyTile + j)] =
            static_cast<T>(sums[j * kQueryTile + i]);
  });
}

// Hands every tile that is not empty to the visitor, in the order of b, h, query and key. Tiles are computed in
// parallel, some at a time, and visited one after another on the calling thread.
template <class T>
void visit_gradients(const Backward<T>& p, const Dropout* dropout, Executor& executor) {
  struct Visit {
    int64_t b, h;
    Tile tile;
    Cover cover;
  };
  Visit visits[kVisited];
  int64_t waiting = 0;
  const BackwardCut<T> cut = BackwardCut<T>(p, 1).alone();
  const int64_t most = cut.columns(p) * HWY_MIN(p.Lk, kKeyTile);  // pairs of a tile
  constexpr int64_t kRuns = kVisited / kVisitedRun;
  ScratchSlots slots(p.workspace, BackwardScratch<T>::bytes(p, cut), kRuns, executor,
                     Scratch::bytes_of<T>(2 * kVisited * most));
  T* const gradients = reinterpret_cast<T*>(slots.shared());  // (kVisited, 2, most): gradients, scores
  const auto flush = [&]() HWY_ATTR {
    parallel_for(executor, (waiting + kVisitedRun - 1) / kVisitedRun, [&](int64_t run) HWY_ATTR {
      Scratch scratch(slots);
      const BackwardScratch<T> s(p, cut, scratch);
      for (int64_t n = run * kVisitedRun; n < HWY_MIN(waiting, (run + 1) * kVisitedRun); ++n) {
        const Visit &visit = visits[n], &before = visits[n > 0 ? n - 1 : 0];
        const bool loaded =
            n % kVisitedRun > 0 && before.b == visit.b && before.h == visit.h && before.tile.query == visit.tile.query;
        T* const to = gradients + 2 * n * most;
        tile_gradients(p, dropout, s, BackwardHead<T>(p, visit.b, visit.h), visit.tile, visit.cover, loaded, to + most);
        std::copy_n(s.dscores, visit.tile.keys * visit.tile.pitch, to);
      }
    });
    for (int64_t n = 0; n < waiting; ++n) {
      const Visit& visit = visits[n];
      ScoreGradientTile<T> tile;
      tile.batch = static_cast<int32_t>(p.part.first_batch + visit.b);
      tile.head = static_cast<int32_t>(p.part.first_head + visit.h);
      tile.query = static_cast<int32_t>(p.part.first_query + visit.tile.query);
      tile.key = static_cast<int32_t>(p.part.first_key + visit.tile.key);
      tile.queries = static_cast<int32_t>(visit.tile.queries);
      tile.keys = static_cast<int32_t>(visit.tile.keys);
      tile.pitch = visit.tile.pitch;
      tile.gradients = gradients + 2 * n * most;
      tile.scores = tile.gradients + most;
      (*p.visitor)(tile);
    }
    waiting = 0;
  };
  for (int64_t b = 0; b < p.B; ++b) {
    for (int64_t h = 0; h < p.Hq; ++h) {
      const Head<T> head = p.head(b, h);
      for (int64_t query = 0; query < head.Lq; query += kQueryTile) {
        const int64_t queries = HWY_MIN(head.Lq - query, kQueryTile);
        for_tiles<1>(p, head, query, query + queries, 0, head.Lk, [&](const KeyTile<1>& at) HWY_ATTR {
          visits[waiting++] = {b, h, at.tiles[0], at.covers[0]};
          if (waiting == kVisited) flush();
        });
      }
    }
  }
  flush();
}

template <class T>
bool sees_nothing(const Head<T>& head, int64_t i) {
  for (int64_t j = head.key_begin(i); j < head.key_end(i); ++j)
    if (head.visible(i, j)) return false;
  return true;
}

// A sink takes its share exp(sink - lse) of every row and gives no value for it.
template <class T>
void sink_gradients(const Backward<T>& p, Executor& executor) {
  const BackwardCut<T> cut = BackwardCut<T>(p, 1).alone();
  ScratchSlots slots(p.workspace, BackwardScratch<T>::bytes(p, cut), p.Hq, executor);
  parallel_for(executor, p.Hq, [&](int64_t h) HWY_ATTR {
    Scratch scratch(slots);
    const BackwardScratch<T> s(p, cut, scratch);
    double sum = 0;
    for (int64_t b = 0; b < p.B; ++b) {
      const BackwardHead<T> from(p, b, h);
      const Head<T>& head = from.head;
      for (int64_t query = 0; query < head.Lq; query += kQueryTile) {
        const int64_t queries = HWY_MIN(head.Lq - query, kQueryTile);
        T delta[kQueryTile];
        load_delta(from, s, query, queries, delta);
        for (int64_t i = 0; i < queries; ++i) {
          const T lse = from.lse[query + i];
          if (lse == -static_cast<T>(INFINITY)) continue;
          // A row that sees nothing has output 0, whatever its gradient: only lse tells of its sink.
          if (!std::isfinite(delta[i]) && sees_nothing(head, query + i))
            delta[i] = from.grad_lse ? -from.grad_lse[query + i] : T{0};
          const double low = from.lse_low ? static_cast<double>(from.lse_low[query + i]) : 0;
          const double share = std::exp(static_cast<double>(head.sink) - static_cast<double>(lse) - low);
          sum -= share * static_cast<double>(delta[i]);
        }
      }
    }
    p.dsinks[h] = static_cast<T>(sum);
  });
}

template <class T>
void run_backward(const Backward<T>& p, Executor& executor) {
  const Dropout factors = dropout_of(p);
  const Dropout* const dropout = p.dropout > 0 ? &factors : nullptr;
  input_gradients(p, dropout, executor);
  if (p.dmask) mask_gradient(p, dropout, executor);
  if (p.dsinks) sink_gradients(p, executor);
  if (p.visitor) visit_gradients(p, dropout, executor);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_BACKWARD_INL_H_
