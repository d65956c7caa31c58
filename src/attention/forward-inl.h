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
  T* q;        // (groups, D, 64): queries transposed, times scale * log2(e)
  T* out;      // (192, Dv up to lanes): weighted sums of values, relative to max
  T* max;      // (192) of the scores so far, in units of log 2
  T* sum;      // (192) of 2^(score - max)
  T* scores;   // (64 keys, 64 queries)
  T* mask;     // likewise
  T* factors;  // likewise: dropout
  T* values;   // (64 keys, Dv up to lanes)

  static int64_t bytes(const Problem<T>& p, int64_t queries) {
    int64_t total = 0;
    ForwardBlock().each(p, queries, [&](T*&, int64_t n) { total += Scratch::bytes_of<T>(n); });
    return total;
  }
  ForwardBlock(const Problem<T>& p, int64_t queries, Scratch& scratch) {
    each(p, queries, [&](T*& piece, int64_t n) { piece = scratch.take<T>(n); });
  }

 private:
  ForwardBlock() = default;
  template <class F>
  void each(const Problem<T>& p, int64_t queries, F&& f) {
    const int64_t columns = round_to_lanes<T>(queries), tile = HWY_MIN(columns, kQueryTile) * kKeyTile;
    const int64_t width = round_to_lanes<T>(p.Dv);
    f(q, columns * p.D);
    f(out, queries * width);
    f(max, columns);
    f(sum, columns);
    f(scores, tile);
    f(mask, p.mask.present ? tile : 0);
    f(factors, p.dropout > 0 ? tile : 0);
    f(values, kKeyTile * width);
  }
};

// Turns scores into weights relative to the running maximum; sums and earlier outputs follow when it moves.
template <class T>
HWY_INLINE void online_softmax(const Tile& tile, bool first, T* HWY_RESTRICT scores, T* HWY_RESTRICT max,
                               T* HWY_RESTRICT sum, Matrix<T> out, int64_t width) {
  const Lanes<T> d;
  const Vec<T> nothing = hn::Set(d, -static_cast<T>(INFINITY));
  HWY_ALIGN T rescale[kQueryTile];
  bool moved = false;
  for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
    Vec<T> m0 = first ? nothing : hn::LoadU(d, max + i), m1 = m0;
    const Vec<T> before = m0;
    const T* column = scores + i;
    int64_t j = 0;
    for (; j + 2 <= tile.keys; j += 2, column += 2 * tile.pitch) {
      m0 = hn::Max(m0, hn::LoadU(d, column));
      m1 = hn::Max(m1, hn::LoadU(d, column + tile.pitch));
    }
    if (j < tile.keys) m0 = hn::Max(m0, hn::LoadU(d, column));
    const Vec<T> m = hn::Max(m0, m1);
    hn::StoreU(m, d, max + i);
    // A row that has seen nothing keeps -inf, and -inf - -inf would be NaN.
    const Vec<T> shift = hn::IfThenZeroElse(hn::Eq(m, nothing), m);
    Vec<T> total = hn::Zero(d);
    for (T* s = scores + i; s < scores + tile.keys * tile.pitch; s += tile.pitch) {
      const Vec<T> weight = exp2<T>(hn::Sub(hn::LoadU(d, s), shift));
      hn::StoreU(weight, d, s);
      total = hn::Add(total, weight);
    }
    if (!first) {
      const Vec<T> factor = exp2<T>(hn::Sub(before, shift));  // 2^(m_old - m_new)
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

// out += weights * value for the one key whose value is not finite, in the rows that may attend to it and no other.
template <class T>
void add_careful(const Problem<T>& p, const Tile& tile, int64_t key, const T* weights, Matrix<T> out) {
  const T* const value = p.v.at(tile.b, tile.h / p.group(), tile.key + key);  // (Dv)
  for (int64_t i = 0; i < tile.queries; ++i) {
    if (!p.visible(tile.b, tile.h, tile.query + i, tile.key + key)) continue;
    const T weight = weights[key * tile.pitch + i];
    for (int64_t c = 0; c < p.Dv; ++c) out.row(i)[c] += weight * value[c];
  }
}

// The tile's values as whole vectors: the caller's memory where it serves, else a copy. `poisoned` counts the keys
// whose value was replaced by zeros because 0 * NaN would reach rows that do not see them.
template <class T>
HWY_INLINE Matrix<const T> tile_values(const Problem<T>& p, const Tile& tile, int64_t queries, T* copy,
                                       int64_t* poisoned_keys, int64_t& poisoned) {
  const T* const from = p.v.at(tile.b, tile.h / p.group(), tile.key);
  const bool may_hide = p.mask.present || p.causal != Causal::none;
  const bool finite = !may_hide || all_finite(tile.keys, p.Dv, from, p.v.row);
  // Rows far apart fall on the same sets of the first-level cache; a copy pays when many queries read it.
  const bool scattered = p.v.row != p.Dv && queries > 4 * kMaxRows;
  poisoned = 0;
  if (finite && !scattered && p.Dv % lanes<T>() == 0) return {from, p.v.row};
  const int64_t width = round_to_lanes<T>(p.Dv);
  copy_padded(tile.keys, p.Dv, from, p.v.row, T{1}, copy, width);
  for (int64_t j = 0; !finite && j < tile.keys; ++j) {
    if (all_finite(1, p.Dv, from + j * p.v.row, 0)) continue;
    poisoned_keys[poisoned++] = j;
    std::fill_n(copy + j * width, width, T{0});
  }
  return {copy, width};
}

// log2 of the sum of 2^score of every row; +inf for a row that sees nothing, so that its weights come out as 0.
template <class T>
HWY_INLINE Vec<T> log2_sum(Vec<T> max, Vec<T> sum) {
  const Lanes<T> d;
  const Vec<T> lse = hn::IfThenElse(hn::Eq(sum, sum), hn::Add(max, hn::Log2(d, sum)), sum);
  return hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Set(d, static_cast<T>(INFINITY)), lse);
}

// The weights of a block, from its finished max and sum: a second pass over the keys.
template <class T>
void write_weights(const Forward<T>& p, ForwardBlock<T>& s, int64_t b, int64_t h, int64_t begin, int64_t end) {
  const Lanes<T> d;
  T* const weights = p.weights + ((b * p.Hq + h) * p.Lq + begin) * p.Lk;  // (end - begin, Lk)
  std::fill_n(weights, (end - begin) * p.Lk, T{0});
  for (int64_t group = begin; group < end; group += kQueryTile) {
    const int64_t at = group - begin, queries = HWY_MIN(end - group, kQueryTile);
    const int64_t pitch = round_to_lanes<T>(queries), key_end = p.key_end(b, group + queries - 1);
    for (int64_t key = 0; key < key_end; key += kKeyTile) {
      const Tile tile{b, h, group, queries, key, HWY_MIN(key_end - key, kKeyTile), pitch};
      const bool diagonal = is_diagonal(p, tile);
      qk_tile(p, tile, diagonal, {p.k.at(b, h / p.group(), key), p.k.row}, {s.q + at * p.D, pitch}, p.D, s.scores);
      if (diagonal || p.mask.present) apply_mods(p, tile, diagonal, s.mask, s.scores);
      for (int64_t i = 0; i < pitch; i += lanes<T>()) {
        const Vec<T> lse = log2_sum<T>(hn::LoadU(d, s.max + at + i), hn::LoadU(d, s.sum + at + i));
        for (int64_t j = 0; j < tile.keys; ++j) {
          T* const score = s.scores + j * pitch + i;
          const Vec<T> x = hn::LoadU(d, score);
          const auto hidden = hn::Eq(x, hn::Set(d, -static_cast<T>(INFINITY)));
          hn::StoreU(hn::IfThenZeroElse(hidden, exp2<T>(hn::Sub(x, lse))), d, score);
        }
      }
      transpose<false>(tile.keys, queries, s.scores, pitch, T{1}, weights + at * p.Lk + key, p.Lk);
    }
  }
}

// Queries [begin, end) of one head, at most kQueryBlock of them, against all their keys.
template <class T>
void forward_block(const Forward<T>& p, const Dropout& dropout, ForwardBlock<T>& s, int64_t b, int64_t h, int64_t begin,
                   int64_t end) {
  const Lanes<T> d;
  const int64_t hkv = h / p.group(), width = round_to_lanes<T>(p.Dv);
  const auto scale = static_cast<T>(p.scale * kLog2E);
  for (int64_t group = begin; group < end; group += kQueryTile) {
    const int64_t queries = HWY_MIN(end - group, kQueryTile);
    transpose<true>(queries, p.D, p.q.at(b, h, group), p.q.row, scale, s.q + (group - begin) * p.D,
                    round_to_lanes<T>(queries));
  }
  const int64_t block_end = p.key_end(b, end - 1);
  for (int64_t key = 0; key < block_end; key += kKeyTile) {
    int64_t poisoned_keys[kKeyTile], poisoned = 0;
    const Tile whole{b, h, begin, end - begin, key, HWY_MIN(block_end - key, kKeyTile), 0};
    const Matrix<const T> values = tile_values(p, whole, end - begin, s.values, poisoned_keys, poisoned);
    for (int64_t group = begin; group < end; group += kQueryTile) {
      const int64_t at = group - begin, queries = HWY_MIN(end - group, kQueryTile);
      const int64_t keys = HWY_MIN(p.key_end(b, group + queries - 1) - key, whole.keys);
      if (keys <= 0) continue;
      const Tile tile{b, h, group, queries, key, keys, round_to_lanes<T>(queries)};
      const Matrix<T> out{s.out + at * width, width};
      const bool diagonal = is_diagonal(p, tile);
      qk_tile(p, tile, diagonal, {p.k.at(b, hkv, key), p.k.row}, {s.q + at * p.D, tile.pitch}, p.D, s.scores);
      if (diagonal || p.mask.present) apply_mods(p, tile, diagonal, s.mask, s.scores);
      online_softmax(tile, key == 0, s.scores, s.max + at, s.sum + at, out, width);
      if (p.dropout > 0) {
        dropout_factors(p, dropout, tile, s.factors);
        for (int64_t i = 0; i < keys * tile.pitch; i += lanes<T>())
          hn::StoreU(hn::Mul(hn::LoadU(d, s.scores + i), hn::LoadU(d, s.factors + i)), d, s.scores + i);
      }
      pv_tile(p, tile, diagonal, s.scores, values, width, out, key > 0);
      for (int64_t n = 0; n < poisoned; ++n)
        if (poisoned_keys[n] < keys) add_careful(p, tile, poisoned_keys[n], s.scores, out);
    }
  }

  for (int64_t group = begin; group < end; group += kQueryTile) {
    const int64_t at = group - begin, queries = HWY_MIN(end - group, kQueryTile);
    const int64_t pitch = round_to_lanes<T>(queries);
    if (p.key_end(b, group + queries - 1) == 0) {  // no key was visited: nothing is initialised yet
      std::fill_n(s.max + at, pitch, -static_cast<T>(INFINITY));
      std::fill_n(s.sum + at, pitch, T{0});
      std::fill_n(s.out + at * width, queries * width, T{0});
    }
    for (int64_t i = 0; i < queries; ++i) {
      const T sum = s.sum[at + i];
      write_rows(1, p.Dv, s.out + (at + i) * width, 0, sum == 0 ? T{0} : 1 / sum, p.out.at(b, h, group + i), 0, false);
    }
    for (int64_t i = 0; p.lse && i < pitch; i += lanes<T>()) {
      HWY_ALIGN T lse[lanes<T>()];
      const Vec<T> sum = hn::LoadU(d, s.sum + at + i);
      const Vec<T> log2 = log2_sum<T>(hn::LoadU(d, s.max + at + i), sum);
      hn::Store(hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Set(d, -static_cast<T>(INFINITY)),
                               hn::Mul(log2, hn::Set(d, static_cast<T>(kLn2)))),
                d, lse);
      T* const to = p.lse + (b * p.Hq + h) * p.Lq + group + i;
      for (int64_t n = 0; n < HWY_MIN(lanes<T>(), queries - i); ++n) to[n] = lse[n];
    }
  }
  if (p.weights) write_weights(p, s, b, h, begin, end);
}

template <class T>
void run_forward(const Forward<T>& p, Executor& executor) {
  const int64_t blocks = (p.Lq + kQueryBlock - 1) / kQueryBlock, units = p.B * p.Hq * blocks;
  const int64_t queries = HWY_MIN(p.Lq, kQueryBlock);
  // Short inputs: as many heads a tile as make about a million multiply-adds, so that dealing them out costs little.
  const int64_t work = HWY_MAX(int64_t{1}, queries * p.Lk * (p.D + p.Dv));
  const int64_t together = HWY_MAX(int64_t{1}, (int64_t{1} << 20) / work);
  const Dropout dropout = dropout_of(p);
  parallel_for(executor, (units + together - 1) / together, [&](int64_t tile) HWY_ATTR {
    Scratch scratch(ForwardBlock<T>::bytes(p, queries));
    ForwardBlock<T> state(p, queries, scratch);
    for (int64_t unit = tile * together; unit < HWY_MIN(units, (tile + 1) * together); ++unit) {
      const int64_t head = unit / blocks;
      const int64_t block = blocks - 1 - unit % blocks;  // the last sees most keys where causal: start it first
      const int64_t begin = block * kQueryBlock;
      forward_block(p, dropout, state, head / p.Hq, head % p.Hq, begin, HWY_MIN(p.Lq, begin + kQueryBlock));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_FORWARD_INL_H_
