// Forward: online softmax over tiles of keys (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention", 3.1).
#if defined(HEED_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FORWARD_INL_H_
#undef HEED_ATTENTION_FORWARD_INL_H_
#else
#define HEED_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>

#include "attention/scratch.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kQueryBlock = 3 * kQueryTile;  // queries that share one pass over the keys

// State of a block of queries while it passes over the keys.
template <class T>
struct ForwardBlock {
  T* q;       // (groups, D, 64): queries transposed, times the scale, as transposed() has it
  T* out;     // (192, Dv up to lanes): weighted sums of values, relative to max
  T* max;     // (192) of the scores so far, then lse
  T* sum;     // (192) of e^(score - max), then what `out` is multiplied by
  T* low;     // (192) what rounding lse leaves
  T* scores;  // (64 keys, 64 queries)
  T* keys;    // (64 keys, D up to lanes): where they are not kept as T
  T* values;  // (64 keys, Dv up to lanes), packed in panels or not
  ModScratch<T> mods;
  bool streams;  // one block reads a head, and the second-level cache does not hold all heads

  static int64_t bytes(const Problem<T>& p, int64_t queries) {
    int64_t total = 0;
    ForwardBlock().each(p, queries, [&](T*&, int64_t n) { total += Scratch::bytes_of<T>(n); });
    return total;
  }
  ForwardBlock(const Problem<T>& p, int64_t queries, Scratch& scratch) {
    each(p, queries, [&](T*& piece, int64_t n) { piece = scratch.take<T>(n); });
    constexpr int64_t kHeld = int64_t{1} << 18;  // elements
    streams = p.Lq <= kQueryBlock && p.B * (p.Hq * p.Lq * p.D + p.Hkv * p.Lk * (p.D + p.Dv)) > kHeld;
  }

 private:
  ForwardBlock() = default;
  template <class F>
  void each(const Problem<T>& p, int64_t queries, F&& f) {
    const int64_t columns = pitch_of(p, queries), tile = HWY_MIN(columns, kQueryTile) * kKeyTile;
    const int64_t width = round_to_lanes<T>(p.Dv);
    f(q, transposed_elements<T>(p.D, columns));
    f(out, queries * width);
    f(max, columns);
    f(sum, columns);
    f(low, columns);
    f(scores, tile);
    f(keys, p.k.storage == Storage::same ? 0 : kKeyTile * round_to_lanes<T>(p.D));
    f(values, kKeyTile * panel_columns<T>(width));
    f(mods.mask, p.mask.present ? tile : 0);
  }
};

// Turns scores into weights relative to the running maximum; sums and earlier outputs follow when it moves. Where
// kDropout, those that are not `kept` (draw_kept) become 0 once they are summed.
template <bool kDropout, class T>
HWY_INLINE void online_softmax(const Tile& tile, bool first, const uint64_t* HWY_RESTRICT kept, T* HWY_RESTRICT scores,
                               T* HWY_RESTRICT max, T* HWY_RESTRICT sum, Matrix<T> out, int64_t width) {
  const Lanes<T> d;
  const Vec<T> nothing = hn::Set(d, -static_cast<T>(INFINITY));
  HWY_ALIGN T rescale[kQueryTile];
  const int64_t keys = tile.keys, pitch = tile.pitch;  // stores of vectors might alias tile's
  bool moved = false;
  for (int64_t i = 0; i < pitch; i += lanes<T>()) {
    const Vec<T> before = first ? nothing : hn::LoadU(d, max + i);
    Vec<T> most[4] = {before, before, before, before};  // a single chain would wait for its own latency
    const T* column = scores + i;
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4, column += 4 * pitch)
      unroll<4>([&](auto n) HWY_ATTR { most[n] = hn::Max(most[n], hn::LoadU(d, column + n * pitch)); });
    for (; j < keys; ++j, column += pitch) most[0] = hn::Max(most[0], hn::LoadU(d, column));
    const Vec<T> m = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
    hn::StoreU(m, d, max + i);
    // A row that has seen nothing keeps -inf, and -inf - -inf would be NaN.
    const Vec<T> shift = hn::IfThenZeroElse(hn::Eq(m, nothing), m);
    Vec<T> total = hn::Zero(d);
    T* s = scores + i;
    for (j = 0; j < keys; ++j, s += pitch) {
      const Vec<T> weight = exp_of_score(d, hn::Sub(hn::LoadU(d, s), shift));
      total = hn::Add(total, weight);
      if constexpr (kDropout)
        hn::StoreU(hn::IfThenElseZero(lanes_of_bits<T>(kept[j], i), weight), d, s);
      else
        hn::StoreU(weight, d, s);
    }
    if (!first) {
      const Vec<T> factor = exp_of_score(d, hn::Sub(before, shift));  // e^(m_old - m_new)
      hn::StoreU(factor, d, rescale + i);
      total = hn::MulAdd(hn::LoadU(d, sum + i), factor, total);
      moved |= !hn::AllTrue(d, hn::Eq(m, before));
    }
    hn::StoreU(total, d, sum + i);
  }
  if (!moved) return;
  for (int64_t i = 0; i < tile.queries; ++i) {
    if (rescale[i] == 1) continue;
    const Vec<T> factor = hn::Set(d, rescale[i]);
    for (int64_t c = 0; c < width; c += lanes<T>()) {
      T* const at = out.row(i) + c;
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, at)), d, at);
    }
  }
}

// out += weights * value for keys whose value is not finite, in the rows that may attend to them and no other.
template <class T>
void add_poisoned(const Head<T>& head, const Tile& tile, uint64_t poisoned, const T* weights, Matrix<T> out) {
  for (int64_t j = 0; j < tile.keys; ++j) {
    if (!(poisoned >> (tile.key + j) % kKeyTile & 1)) continue;
    for (int64_t i = 0; i < tile.queries; ++i) {
      if (!head.visible(tile.query + i, tile.key + j)) continue;
      const T weight = weights[j * tile.pitch + i];
      for (int64_t c = 0; c < head.Dv; ++c) out.row(i)[c] += weight * head.v.get(tile.key + j, c);
    }
  }
}

// The factor for the weighted sum of values of each row, and, unless `lse` is null, the logarithm of its sum of e^score
// in two parts: lse[0] is rounded (-inf for a row that sees nothing), lse[1] is the rest. A sink is one more score
// without a value. (An array: the constructor of a struct of vectors would lie outside the SIMD target on Arm.)
template <class T>
HWY_INLINE void finish_rows(const Head<T>& head, Vec<T> max, Vec<T> sum, Vec<T>* lse, Vec<T>& factor) {
  const Lanes<T> d;
  const Vec<T> nothing = hn::Set(d, -static_cast<T>(INFINITY));
  Vec<T> rescale = hn::Set(d, T{1});
  if (head.has_sink) {
    const Vec<T> sink = hn::Set(d, head.sink);
    const Vec<T> before = max;
    max = hn::IfThenElse(hn::Lt(before, sink), sink, before);
    const Vec<T> shift = hn::IfThenZeroElse(hn::Eq(max, nothing), max);
    rescale = exp_of_score(d, hn::Sub(before, shift));
    sum = hn::MulAdd(sum, rescale, exp_of_score(d, hn::Sub(sink, shift)));
  }
  const auto empty = hn::Eq(sum, hn::Zero(d));
  factor = hn::IfThenZeroElse(empty, hn::Div(rescale, sum));
  if (!lse) return;
  // max + log, and its rounding error (Knuth, "The Art of Computer Programming", 4.2.2, theorem B): of a maximum of
  // 1e9, lse keeps nothing of the sum, and backward's weights are e^(score - lse).
  const Vec<T> log = hn::Log(d, sum), high = hn::Add(max, log), added = hn::Sub(high, max);
  const Vec<T> low = hn::Add(hn::Sub(max, hn::Sub(high, added)), hn::Sub(log, added));
  const auto number = hn::Eq(sum, sum);
  lse[0] = hn::IfThenElse(empty, nothing, hn::IfThenElse(number, high, sum));
  lse[1] = hn::IfThenElseZero(hn::AndNot(empty, number), low);
}

// Queries [begin, end) of one head, at most kQueryBlock of them, against all their keys.
template <class T>
void forward_block(const Forward<T>& p, const Head<T>& head, const Dropout& dropout, const ForwardBlock<T>& s,
                   int64_t begin, int64_t end) {
  const Lanes<T> d;
  const int64_t width = round_to_lanes<T>(p.Dv);
  const Target<T> to = p.out.template target<T>(head.b, head.h, p.query_row(head.b));
  bool visited[kQueryBlock / kQueryTile] = {};  // by a tile of keys: else max, sum and out are not set yet
  const int64_t block_begin = head.key_begin(begin) / kKeyTile * kKeyTile, block_end = head.key_end(end - 1);
  const bool dots = takes_dots(p), asks = s.streams && !dots;
  prefetch_rows(head.q, begin, end - begin, p.D, asks);
  prefetch_rows(head.k, block_begin, HWY_MIN(block_end - block_begin, kKeyTile), p.D, asks);
  for (int64_t group = begin; group < end && !dots; group += kQueryTile) {
    const int64_t queries = HWY_MIN(end - group, kQueryTile);
    transpose_rows(head.q, group, queries, p.D, head.scale, s.q + (group - begin) * p.D, pitch_of(p, queries));
  }
  constexpr int kGroups = kQueryBlock / kQueryTile;
  for_tiles<kGroups>(p, head, begin, end, 0, block_end, [&](const KeyTile<kGroups>& at_key) HWY_ATTR {
    const int64_t key = at_key.key, keys = at_key.keys;
    bool hides = false;
    for (int64_t group = begin, g = 0; group < end; group += kQueryTile, ++g)
      hides |= at_key.covers[g] != Cover::empty && may_hide(head, at_key.covers[g]);
    prefetch_rows(head.v, key, keys, p.Dv, asks);
    prefetch_rows(head.k, key + keys, HWY_MIN(block_end - key - keys, kKeyTile), p.D, asks);
    const Matrix<const T> k_rows = load_rows(head.k, key, keys, p.D, false, s.keys);
    // 0 * NaN would reach the rows that do not see a value: its row becomes 0 for the product, and is added after it.
    const uint64_t poisoned = hides ? poisoned_rows(head.v, key, keys, p.Dv) : 0;
    Panels<T> values;
    if (poisoned) {
      copy_rows(head.v, key, keys, p.Dv, s.values, width);
      for (int64_t j = 0; j < keys; ++j)
        if (poisoned >> j & 1) std::fill_n(s.values + j * width, width, T{0});
      values = Matrix<const T>{s.values, width};
    } else {
      values = load_panels(head.v, key, keys, p.Dv, s.values, end - begin > 4 * kMaxRows);
    }
    for (int64_t group = begin, g = 0; group < end; group += kQueryTile, ++g) {
      const Cover cover = at_key.covers[g];
      if (cover == Cover::empty) continue;
      const Tile& tile = at_key.tiles[g];
      const int64_t at = group - begin, first = tile.key - key;
      const Matrix<T> out{s.out + at * width, width};
      const Matrix<const T> k = k_rows.from(first, 0);
      if (dots)
        dot_tile(head.q, tile, k, p.D, head.scale, s.scores);
      else
        qk_tile(head, tile, cover, {k.data, k.stride}, transposed<T>(s.q + at * p.D, p.D, tile.pitch), p.D, s.scores);
      apply_mods(head, tile, cover, s.mods, s.scores);
      if (p.dropout > 0) {
        uint64_t kept[kKeyTile];
        draw_kept(head, dropout, tile, kept);
        online_softmax<true>(tile, !visited[g], kept, s.scores, s.max + at, s.sum + at, out, width);
      } else {
        online_softmax<false, T>(tile, !visited[g], nullptr, s.scores, s.max + at, s.sum + at, out, width);
      }
      pv_tile(head, tile, cover, s.scores, values.from(first, 0), width, out, visited[g]);
      if (poisoned) add_poisoned(head, tile, poisoned, s.scores, out);
      visited[g] = true;
    }
  });

  for (int64_t group = begin, g = 0; group < end; group += kQueryTile, ++g) {
    const int64_t at = group - begin, queries = HWY_MIN(end - group, kQueryTile);
    const int64_t pitch = round_to_lanes<T>(queries);
    if (!visited[g]) {
      std::fill_n(s.max + at, pitch, -static_cast<T>(INFINITY));
      std::fill_n(s.sum + at, pitch, T{0});
      std::fill_n(s.out + at * width, queries * width, T{0});
    }
    for (int64_t i = 0; i < pitch; i += lanes<T>()) {
      Vec<T> lse[2];
      Vec<T> factor;
      finish_rows<T>(head, hn::LoadU(d, s.max + at + i), hn::LoadU(d, s.sum + at + i), p.lse ? lse : nullptr, factor);
      if (p.dropout > 0) factor = hn::Mul(factor, hn::Set(d, static_cast<T>(dropout.keep_scale)));
      hn::StoreU(factor, d, s.sum + at + i);
      if (!p.lse) continue;
      hn::StoreU(lse[0], d, s.max + at + i);
      hn::StoreU(lse[1], d, s.low + at + i);
    }
    for (int64_t i = 0; i < queries; ++i)
      store_rows(to, group + i, 1, p.Dv, s.out + (at + i) * width, 0, s.sum[at + i]);
    const int64_t row = p.lse_row(head.b, head.h) + group;
    if (p.lse) std::copy_n(s.max + at, queries, p.lse + row);
    if (p.lse_low) std::copy_n(s.low + at, queries, p.lse_low + row);
  }
}

template <class T>
void run_forward(const Forward<T>& p, Executor& executor) {
  const int64_t blocks = (p.Lq + kQueryBlock - 1) / kQueryBlock, units = p.B * p.Hq * blocks;
  const int64_t queries = HWY_MIN(p.Lq, kQueryBlock);
  // Short inputs: as many heads a tile as make about a million multiply-adds, so that dealing them out costs little.
  const int64_t work = HWY_MAX(int64_t{1}, queries * p.Lk * (p.D + p.Dv));
  const int64_t together = HWY_MAX(int64_t{1}, (int64_t{1} << 20) / work);
  const int64_t tiles = (units + together - 1) / together;
  const Dropout dropout = dropout_of(p);
  ScratchSlots slots(p.workspace, ForwardBlock<T>::bytes(p, queries), tiles, executor);
  parallel_for(executor, tiles, [&](int64_t tile) HWY_ATTR {
    Scratch scratch(slots);
    const ForwardBlock<T> state(p, queries, scratch);
    for (int64_t unit = tile * together; unit < HWY_MIN(units, (tile + 1) * together); ++unit) {
      const int64_t number = unit / blocks;
      const int64_t block = blocks - 1 - unit % blocks;  // the last sees most keys where causal: start it first
      const int64_t begin = block * kQueryBlock;
      const Head<T> head = p.head(number / p.Hq, number % p.Hq);
      if (begin < head.Lq) forward_block(p, head, dropout, state, begin, HWY_MIN(head.Lq, begin + kQueryBlock));
    }
  });
}

// lse of large rows, by the products that backward computes its scores with: where a score is 1e9, sums in another
// order differ by more than the logarithm of a row's sum.
template <class T>
void run_large_lse(const Problem<T>& p, T* lse, T* lse_low, Executor& executor) {
  const Lanes<T> d;
  const int64_t blocks = (p.Lq + kQueryTile - 1) / kQueryTile, units = p.B * p.Hq * blocks;
  const int64_t most = HWY_MIN(p.Lq, kQueryTile);
  ScratchSlots slots(p.workspace, ForwardBlock<T>::bytes(p, most), units, executor);
  parallel_for(executor, units, [&](int64_t unit) HWY_ATTR {
    const int64_t number = unit / blocks, begin = unit % blocks * kQueryTile;
    const Head<T> head = p.head(number / p.Hq, number % p.Hq);
    const int64_t queries = HWY_MIN(head.Lq - begin, kQueryTile), row = p.lse_row(head.b, head.h) + begin;
    T *const high = lse + row, *const low = lse_low + row;
    if (queries <= 0 || std::none_of(high, high + queries, is_large<T>)) return;
    Scratch scratch(slots);
    const ForwardBlock<T> s(p, most, scratch);
    const int64_t pitch = pitch_of(p, queries);
    transpose_rows(head.q, begin, queries, p.D, head.scale, s.q, pitch);
    bool first = true;
    for_tiles<1>(p, head, begin, begin + queries, 0, head.Lk, [&](const KeyTile<1>& at) HWY_ATTR {
      const Tile& tile = at.tiles[0];
      const Matrix<const T> k = load_rows(head.k, tile.key, tile.keys, p.D, false, s.keys);
      qk_tile(head, tile, at.covers[0], {k.data, k.stride}, transposed<T>(s.q, p.D, pitch), p.D, s.scores);
      apply_mods(head, tile, at.covers[0], s.mods, s.scores);
      online_softmax<false, T>(tile, first, nullptr, s.scores, s.max, s.sum, {s.out, 0}, 0);
      first = false;
    });
    if (first) return;  // a sink alone
    for (int64_t i = 0; i < pitch; i += lanes<T>()) {
      Vec<T> exact[2];
      Vec<T> factor;
      finish_rows<T>(head, hn::LoadU(d, s.max + i), hn::LoadU(d, s.sum + i), exact, factor);
      hn::StoreU(exact[0], d, s.max + i);
      hn::StoreU(exact[1], d, s.low + i);
    }
    for (int64_t i = 0; i < queries; ++i)
      if (is_large(high[i])) high[i] = s.max[i], low[i] = s.low[i];
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_FORWARD_INL_H_
