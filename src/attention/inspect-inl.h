// What attention looked at: a second pass over finished lse that writes weights or scores of chosen heads and rows.
#if defined(HEED_ATTENTION_INSPECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_INSPECT_INL_H_
#undef HEED_ATTENTION_INSPECT_INL_H_
#else
#define HEED_ATTENTION_INSPECT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "attention/scratch.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kPanelRows = 16;  // rows whose weights are kept at once, to choose the largest of each

template <class T>
struct InspectScratch {
  T* q;            // (D, 64): queries transposed
  T* scores;       // (64 keys, 64 queries)
  T* keys;         // (64 keys, D up to lanes): where they are not kept as T
  T* panel;        // (16, Lk) weights, for top_p
  int64_t* order;  // (Lk) keys of one row, likewise
  ModScratch<T> mods;

  static int64_t bytes(const Inspection<T>& p, bool choose) {
    int64_t total = 0;
    InspectScratch().each(p, choose, [&](auto*& piece, int64_t n) {
      total += Scratch::bytes_of<std::remove_reference_t<decltype(*piece)>>(n);
    });
    return total;
  }
  InspectScratch(const Inspection<T>& p, bool choose, Scratch& scratch) {
    each(p, choose,
         [&](auto*& piece, int64_t n) { piece = scratch.template take<std::remove_reference_t<decltype(*piece)>>(n); });
  }

 private:
  InspectScratch() = default;
  template <class F>
  void each(const Inspection<T>& p, bool choose, F&& f) {
    f(q, kQueryTile * p.D);
    f(scores, kQueryTile * kKeyTile);
    f(keys, p.k.storage == Storage::same ? 0 : kKeyTile * round_to_lanes<T>(p.D));
    f(panel, choose ? kPanelRows * p.Lk : 0);
    f(order, choose ? p.Lk : 0);
    f(mods.mask, p.mask.present ? kQueryTile * kKeyTile : 0);
  }
};

// weights = exp(score - lse) in place; lse of the tile's first query on. A hidden key's is 0 in every row, even one
// that sees nothing (lse -inf) or a NaN.
template <class T>
HWY_INLINE void scores_to_weights(const Tile& tile, const T* HWY_RESTRICT lse, T* HWY_RESTRICT scores) {
  const Lanes<T> d;
  const Vec<T> hidden = hn::Set(d, -static_cast<T>(INFINITY));
  HWY_ALIGN T sums[kQueryTile] = {};
  std::copy_n(lse, tile.queries, sums);
  for (int64_t i = 0; i < tile.pitch; i += lanes<T>()) {
    const Vec<T> sum = hn::LoadU(d, sums + i);
    for (T* s = scores + i; s < scores + tile.keys * tile.pitch; s += tile.pitch) {
      const Vec<T> x = hn::LoadU(d, s);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(x, hidden), exp_of_score(d, hn::Sub(x, sum))), d, s);
    }
  }
}

// One row of scores to weights in place, by its own maximum and sum where it is large, and else as scores_to_weights.
template <class T>
void row_to_weights(const Head<T>& head, int64_t columns, T lse, T* row) {
  const T hidden = -static_cast<T>(INFINITY);
  T max = lse;
  double sum = 1;
  if (is_large(lse)) {
    max = head.has_sink ? head.sink : hidden;
    for (int64_t j = 0; j < columns; ++j) max = HWY_MAX(max, row[j]);
    sum = head.has_sink ? std::exp(static_cast<double>(head.sink - max)) : 0;
    for (int64_t j = 0; j < columns; ++j) sum += std::exp(static_cast<double>(row[j] - max));
  }
  for (int64_t j = 0; j < columns; ++j)
    row[j] = row[j] == hidden ? T{0} : static_cast<T>(std::exp(static_cast<double>(row[j] - max)) / sum);
}

// The rounding of lse is a factor on the whole row: a row of weights is divided by its sum, which is 1 but for that.
template <class T>
HWY_INLINE void normalize_row(int64_t columns, T* HWY_RESTRICT row) {
  const Lanes<T> d;
  constexpr int64_t kStep = 4 * lanes<T>();
  Vec<T> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t j = 0;
  for (; j + kStep <= columns; j += kStep)
    unroll<4>([&](auto v) HWY_ATTR { sums[v] = hn::Add(sums[v], hn::LoadU(d, row + j + v * lanes<T>())); });
  T sum = sum_of_lanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  for (; j < columns; ++j) sum += row[j];
  if (!(sum > 0) || sum == 1) return;  // a row that sees nothing, or a NaN
  for (j = 0; j < columns; ++j) row[j] /= sum;
}

// to (queries, columns), `to_stride` apart, from p.stage on queries that stand one after another in one tile.
template <class T>
void inspect_rows(const Inspection<T>& p, const Head<T>& given, int64_t query, int64_t queries, int64_t columns,
                  const InspectScratch<T>& s, T* to, int64_t to_stride) {
  const bool open = p.stage == ScoreStage::scaled || p.stage == ScoreStage::softcap;  // nothing is hidden yet
  const bool weights = p.stage == ScoreStage::weights;
  const T* const lse = weights ? p.lse + p.lse_row(given.b, given.h) + query : nullptr;
  const bool by_rows = weights && std::any_of(lse, lse + queries, is_large<T>);
  const T nothing = weights && !by_rows ? T{0} : -static_cast<T>(INFINITY);
  Head<T> head = given;
  if (open) {
    head.Lk = p.ragged ? p.keys(head.b) : p.Lk;  // the rest of the columns belongs to no key of the entry
    head.first_key = -kUnlimited, head.last_key = kUnlimited;
    head.mask = nullptr;
    head.block_mask = nullptr;
  }
  for (int64_t i = 0; i < queries; ++i) std::fill_n(to + i * to_stride, columns, nothing);
  const int64_t pitch = pitch_of(p, queries);
  transpose_rows(head.q, query, queries, p.D, head.scale, s.q, pitch);
  for_tiles<1>(p, head, query, query + queries, 0, head.Lk, [&](const KeyTile<1>& at) HWY_ATTR {
    const Tile& tile = at.tiles[0];
    const Cover cover = at.covers[0];
    const Matrix<const T> k = load_rows(head.k, tile.key, tile.keys, p.D, false, s.keys);
    qk_tile(head, tile, cover, {k.data, k.stride}, transposed<T>(s.q, p.D, pitch), p.D, s.scores);
    if (!open) apply_mods(head, tile, cover, s.mods, s.scores);
    if (p.stage == ScoreStage::softcap) apply_softcap<T>(head, tile, s.scores, nullptr);
    if (weights && !by_rows) scores_to_weights(tile, lse, s.scores);
    transpose<false>(tile.keys, queries, s.scores, pitch, T{1}, to + tile.key, to_stride);
  });
  for (int64_t i = 0; by_rows && i < queries; ++i) row_to_weights(head, columns, lse[i], to + i * to_stride);
  // A sink keeps a share of the row for itself.
  for (int64_t i = 0; weights && !head.has_sink && i < queries; ++i) normalize_row(columns, to + i * to_stride);
}

// The fewest largest weights whose sum reaches top_p, or all that are not 0; of equal ones the lower key first.
template <class T>
void choose_largest(const T* weights, int64_t keys, double top_p, int64_t* order, TopRow<T>& row) {
  int64_t n = 0;
  for (int64_t j = 0; j < keys; ++j)
    if (weights[j] > 0) order[n++] = j;
  const auto smaller = [&](int64_t a, int64_t b) { return weights[a] != weights[b] ? weights[a] < weights[b] : a > b; };
  std::make_heap(order, order + n, smaller);
  double sum = 0;
  while (n > 0 && sum < top_p) {
    std::pop_heap(order, order + n, smaller);
    const int64_t key = order[--n];
    sum += static_cast<double>(weights[key]);
    row.keys.push_back(key);
    row.weights.push_back(weights[key]);
  }
}

template <class T>
void run_inspect(const Inspection<T>& p, Executor& executor, std::vector<TopRow<T>>* top) {
  const bool choose = p.top_p < 1;
  const int64_t step = choose ? kPanelRows : kQueryTile;
  const int64_t most = p.ragged ? p.Lq : p.R;  // rows of an entry
  const int64_t pieces = (most + step - 1) / step, tiles = p.B * p.N * pieces;
  ScratchSlots slots(p.workspace, InspectScratch<T>::bytes(p, choose), tiles, executor);
  parallel_for(executor, tiles, [&](int64_t tile) HWY_ATTR {
    const int64_t b = tile / (p.N * pieces), n = tile / pieces % p.N, begin = tile % pieces * step;
    const Head<T> head = p.head(b, p.heads ? p.heads[n] : n);
    const int64_t end = HWY_MIN(p.ragged ? head.Lq : p.R, begin + step);
    const int64_t first = p.ragged ? n * p.Tq + p.query_row(b) : (b * p.N + n) * p.R;  // where row 0 goes
    const auto query_of = [&](int64_t r) { return p.rows ? p.rows[r] : r; };
    Scratch scratch(slots);
    const InspectScratch<T> s(p, choose, scratch);
    for (int64_t r = begin, next; r < end; r = next) {
      const int64_t query = query_of(r);
      next = r + 1;  // rows that follow one another within one tile of queries go together
      while (next < end && query_of(next) == query + next - r && (query + next - r) % kQueryTile != 0) ++next;
      if (!choose) {
        inspect_rows(p, head, query, next - r, p.width, s, p.dense + (first + r) * p.width, p.width);
        continue;
      }
      inspect_rows(p, head, query, next - r, p.Lk, s, s.panel, p.Lk);
      for (int64_t i = r; i < next; ++i)
        choose_largest(s.panel + (i - r) * p.Lk, p.Lk, p.top_p, s.order, (*top)[static_cast<size_t>(first + i)]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_INSPECT_INL_H_
