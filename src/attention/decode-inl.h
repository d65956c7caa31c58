// Decode: few queries over many keys, bound by memory. All query heads of a key head read the cache once; its keys are
// cut into splits whose partial results are merged in order (Dao et al. 2023, "Flash-Decoding").
#if defined(HEED_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_DECODE_INL_H_
#undef HEED_ATTENTION_DECODE_INL_H_
#else
#define HEED_ATTENTION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "attention/scratch.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kDecodeKeys = 64;  // keys of a tile: its weights stay in the first-level cache, its values follow
constexpr int kKeysTogether = 4;     // keys whose products are summed across lanes at once, by store_four_sums
constexpr int kRowsTogether = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;  // 32 registers or 16
constexpr int kVecsTogether = 4;

// ---- Rows as they are kept ----

// A row of `size` elements as vectors. A last one that is not whole is loaded so that it ends with the row: what it
// has in common with the one before is either set to 0 (keys) or computed twice to the same bits (values).
template <class T>
struct Chunks {
  int64_t size, whole, tail;
  explicit Chunks(int64_t n) : size(n), whole(n / lanes<T>()), tail(n % lanes<T>()) {}
  int64_t count() const { return whole + (tail > 0); }
  int64_t width() const { return count() * lanes<T>(); }  // elements of a row that is held as vectors
  // Where element `at` of the row stands among its vectors.
  int64_t place(int64_t at) const { return at < whole * lanes<T>() || whole == 0 ? at : width() - (size - at); }
  template <class S>
  HWY_INLINE Vec<T> load_tail(const S* row) const {
    if (whole > 0) return load_as<T>(row + size - lanes<T>());
    HWY_ALIGN S few[lanes<T>()] = {};
    std::memcpy(few, row, static_cast<size_t>(size) * sizeof(S));
    return load_as<T>(few);
  }
  template <class S>
  HWY_INLINE Vec<T> load_tail_alone(const S* row) const {
    const Lanes<T> d;
    if (whole == 0) return load_tail(row);
    const auto others = hn::Lt(hn::Iota(d, T{0}), hn::Set(d, static_cast<T>(lanes<T>() - tail)));
    return hn::IfThenZeroElse(others, load_tail(row));
  }
};

// ---- Products ----

// The rows that the next product reads, asked for while this one computes: a tile's values during its scores, the next
// tile's keys during its values. Row i is fetched with row i of this product.
template <class S>
struct Ahead {
  const S* data = nullptr;
  int64_t stride = 0, width = 0, rows = 0;
  HWY_INLINE void fetch(int64_t i) const {
    if (i >= rows) return;
    const char* const row = reinterpret_cast<const char*>(data + i * stride);
    for (int64_t at = 0; at < width * static_cast<int64_t>(sizeof(S)); at += 64) __builtin_prefetch(row + at, 0, 2);
  }
};

// scores (kRows, keys), kDecodeKeys apart = q (kRows, D) k (keys, D)^T. Writes whole groups of keys.
template <int kRows, class T, class S, class A>
HWY_NOINLINE void qk_rows(Chunks<T> chunks, const T* HWY_RESTRICT q, const S* k, int64_t stride, int64_t keys,
                          T* HWY_RESTRICT scores, Ahead<A> ahead) {
  const Lanes<T> d;
  const int64_t width = chunks.width();
  for (int64_t j = 0; j < keys; j += kKeysTogether) {
    const S* key[kKeysTogether];
    unroll<kKeysTogether>([&](auto x) HWY_ATTR { key[x] = k + HWY_MIN(j + x, keys - 1) * stride; });
    Vec<T> sum[kRows][kKeysTogether];
    unroll<kRows>([&](auto r) HWY_ATTR { unroll<kKeysTogether>([&](auto x) HWY_ATTR { sum[r][x] = hn::Zero(d); }); });
    for (int64_t c = 0; c < chunks.count(); ++c) {
      const int64_t at = c * lanes<T>();
      Vec<T> chunk[kKeysTogether];
      if (c < chunks.whole) {
        unroll<kKeysTogether>([&](auto x) HWY_ATTR { chunk[x] = load_as<T>(key[x] + at); });
      } else {
        unroll<kKeysTogether>([&](auto x) HWY_ATTR { chunk[x] = chunks.load_tail_alone(key[x]); });
      }
      unroll<kRows>([&](auto r) HWY_ATTR {
        const Vec<T> x = hn::LoadU(d, q + r * width + at);
        unroll<kKeysTogether>([&](auto i) HWY_ATTR { sum[r][i] = hn::MulAdd(x, chunk[i], sum[r][i]); });
      });
    }
    unroll<kKeysTogether>([&](auto x) HWY_ATTR { ahead.fetch(j + x); });
    unroll<kRows>([&](auto r) HWY_ATTR { store_four_sums<T>(sum[r], scores + r * kDecodeKeys + j); });
  }
}

// out (kRows, kVecs vectors), `width` apart, += weights (kRows, keys) v (keys, kVecs vectors).
template <int kRows, int kVecs, class T, class S, class Load>
HWY_INLINE void pv_vectors(const T* HWY_RESTRICT weights, int64_t keys, T* HWY_RESTRICT out, int64_t width,
                           Ahead<S> ahead, Load&& load) {
  const Lanes<T> d;
  Vec<T> sum[kRows][kVecs];
  unroll<kRows>([&](auto r) HWY_ATTR {
    unroll<kVecs>([&](auto x) HWY_ATTR { sum[r][x] = hn::LoadU(d, out + r * width + x * lanes<T>()); });
  });
  for (int64_t j = 0; j < keys; ++j) {
    ahead.fetch(j);
    Vec<T> value[kVecs];
    unroll<kVecs>([&](auto x) HWY_ATTR { value[x] = load(j, x); });
    unroll<kRows>([&](auto r) HWY_ATTR {
      const Vec<T> weight = hn::Set(d, weights[r * kDecodeKeys + j]);
      unroll<kVecs>([&](auto x) HWY_ATTR { sum[r][x] = hn::MulAdd(weight, value[x], sum[r][x]); });
    });
  }
  unroll<kRows>([&](auto r) HWY_ATTR {
    unroll<kVecs>([&](auto x) HWY_ATTR { hn::StoreU(sum[r][x], d, out + r * width + x * lanes<T>()); });
  });
}

// out (kRows, Dv as vectors) += weights (kRows, keys), kDecodeKeys apart, v (keys, Dv).
template <int kRows, class T, class S>
HWY_NOINLINE void pv_rows(Chunks<T> chunks, const T* weights, const S* v, int64_t stride, int64_t keys, T* out,
                          Ahead<S> ahead) {
  constexpr int64_t N = lanes<T>();
  const int64_t width = chunks.width();
  int64_t c = 0;
  for (; c + kVecsTogether <= chunks.whole; c += kVecsTogether)
    pv_vectors<kRows, kVecsTogether>(weights, keys, out + c * N, width, c == 0 ? ahead : Ahead<S>{},
                                     [&](int64_t j, auto x)
                                         HWY_ATTR { return load_as<T>(v + j * stride + (c + x) * N); });
  for (; c < chunks.whole; ++c)
    pv_vectors<kRows, 1>(weights, keys, out + c * N, width, c == 0 ? ahead : Ahead<S>{},
                         [&](int64_t j, auto) HWY_ATTR { return load_as<T>(v + j * stride + c * N); });
  if (chunks.tail)
    pv_vectors<kRows, 1>(weights, keys, out + c * N, width, c == 0 ? ahead : Ahead<S>{},
                         [&](int64_t j, auto) HWY_ATTR { return chunks.load_tail(v + j * stride); });
}

// f(integral_constant rows, first row) for blocks of rows.
template <class F>
HWY_INLINE void for_row_blocks(int64_t rows, F&& f) {
  int64_t r = 0;
  for (; r + kRowsTogether <= rows; r += kRowsTogether) f(std::integral_constant<int, kRowsTogether>(), r);
  switch (rows - r) {
    case 3:
      return f(std::integral_constant<int, HWY_MIN(3, kRowsTogether)>(), r);
    case 2:
      return f(std::integral_constant<int, HWY_MIN(2, kRowsTogether)>(), r);
    case 1:
      return f(std::integral_constant<int, 1>(), r);
  }
}

template <class T, class S>
HWY_INLINE bool row_is_finite(Chunks<T> chunks, const S* row) {
  const Lanes<T> d;
  Vec<T> sum = hn::Zero(d);  // of x * 0: NaN as soon as one x is not finite
  for (int64_t c = 0; c < chunks.whole; ++c) sum = hn::MulAdd(load_as<T>(row + c * lanes<T>()), hn::Zero(d), sum);
  if (chunks.tail) sum = hn::MulAdd(chunks.load_tail(row), hn::Zero(d), sum);
  return hn::AllTrue(d, hn::Eq(sum, sum));
}

// ---- One split of the keys ----

// The rows of (entry, key head): query i of the n-th query head of the group is row n * Lq + i.
template <class T>
struct DecodeShape {
  int64_t group, Lq, rows, split, splits;
  Chunks<T> qk, v;
  explicit DecodeShape(const Problem<T>& p)
      : group(p.group()), Lq(p.Lq), rows(group * Lq), split(0), splits(0), qk(p.D), v(p.Dv) {
    // By the length alone, so that an entry's bits do not depend on its neighbours' lengths.
    split = std::clamp<int64_t>(p.Lk / 32 / kDecodeKeys * kDecodeKeys, 256, 1024);
    int64_t most = 0;
    for (int64_t b = 0; b < p.B; ++b) {
      const Head<T> head = p.head(b, 0);
      most = HWY_MAX(most, head.key_end(Lq - 1) - head.key_begin(0));
    }
    splits = HWY_MAX((most + split - 1) / split, int64_t{1});
  }
};

// What a split leaves behind, for every row: the sum of e^(score - max), max, and the weighted sum of values.
template <class T>
struct Partial {
  T* max;  // (rows)
  T* sum;  // (rows)
  T* out;  // (rows, v.width()); undefined where sum is 0
  static int64_t size(const DecodeShape<T>& s) { return s.rows * (2 + s.v.width()); }
  Partial(const DecodeShape<T>& s, T* memory, int64_t unit)
      : max(memory + unit * size(s)), sum(max + s.rows), out(sum + s.rows) {}
};

template <class T>
struct DecodeScratch {
  Head<T>* heads;  // (group)
  T* q;            // (rows, qk.width()), scaled
  T* scores;       // (rows, kDecodeKeys), then the weights
  T* sums;         // (rows, lanes) of e^(score - max)
  T* bias;         // (kDecodeKeys): what the mask adds; -inf hides
  T* hides;        // (kDecodeKeys): not 0 where a row of the tile may not see the key

  static int64_t bytes(const DecodeShape<T>& s) {
    return Scratch::bytes_of<Head<T>>(s.group) + Scratch::bytes_of<T>(s.rows * s.qk.width()) +
           Scratch::bytes_of<T>(s.rows * kDecodeKeys) + Scratch::bytes_of<T>(s.rows * lanes<T>()) +
           2 * Scratch::bytes_of<T>(kDecodeKeys);
  }
  DecodeScratch(const DecodeShape<T>& s, Scratch& scratch)
      : heads(scratch.take<Head<T>>(s.group)),
        q(scratch.take<T>(s.rows * s.qk.width())),
        scores(scratch.take<T>(s.rows * kDecodeKeys)),
        sums(scratch.take<T>(s.rows * lanes<T>())),
        bias(scratch.take<T>(kDecodeKeys)),
        hides(scratch.take<T>(kDecodeKeys)) {}
};

template <class T>
HWY_INLINE void load_queries(const DecodeShape<T>& s, DecodeScratch<T>& scratch) {
  const Lanes<T> d;
  const Head<T>& first = scratch.heads[0];
  const Vec<T> factor = hn::Set(d, first.scale);
  with_storage<T>(first.q.storage, [&](auto element) HWY_ATTR {
    using S = decltype(element);
    for (int64_t row = 0; row < s.rows; ++row) {
      const Source<T>& q = scratch.heads[row / s.Lq].q;
      const S* const from = static_cast<const S*>(q.data) + row % s.Lq * q.row;
      T* const to = scratch.q + row * s.qk.width();
      for (int64_t c = 0; c < s.qk.whole; ++c)
        hn::StoreU(hn::Mul(factor, load_as<T>(from + c * lanes<T>())), d, to + c * lanes<T>());
      if (s.qk.tail) hn::StoreU(hn::Mul(factor, s.qk.load_tail_alone(from)), d, to + s.qk.whole * lanes<T>());
    }
  });
}

// Everything between q . k and softmax for one row: scores (kDecodeKeys) of keys [key, key + keys), -inf where hidden
// and past `keys`. Marks in `hides` the keys that the row may not see.
template <class T>
HWY_INLINE bool finish_scores(const Head<T>& head, int64_t query, int64_t key, int64_t keys, T* HWY_RESTRICT scores,
                              T* HWY_RESTRICT bias, T* HWY_RESTRICT hides) {
  const Lanes<T> d;
  const int64_t begin = HWY_MAX(head.key_begin(query) - key, int64_t{0});
  const int64_t end = HWY_MIN(head.key_end(query) - key, keys);
  const int64_t padded = round_to_lanes<T>(keys);
  const Bias<T> rule(head, begin > 0 || end < keys);
  if (!rule.changes() && !head.is_modified()) {
    for (int64_t j = keys; j < padded; ++j) scores[j] = -static_cast<T>(INFINITY);
    return false;
  }
  for (int64_t j = 0; head.mask && j < keys; ++j) bias[j] = head.bias(query, key + j);
  const Vec<T> from = hn::Set(d, static_cast<T>(begin)), to = hn::Set(d, static_cast<T>(end));
  const Vec<T> cap = hn::Set(d, head.softcap), per_cap = hn::Set(d, 1 / head.softcap);
  bool some = false;
  for (int64_t j = 0; j < padded; j += lanes<T>()) {
    Vec<T> s = hn::LoadU(d, scores + j);
    if (head.softcap != 0) s = hn::Mul(cap, tanh<T>(hn::Mul(s, per_cap)));
    const Vec<T> at = count_from(d, static_cast<T>(j)), added = head.mask ? hn::LoadU(d, bias + j) : hn::Zero(d);
    const auto outside = hn::Or(hn::Lt(at, from), hn::Ge(at, to));  // the lanes past `keys`, too
    const Vec<T> distance = count_from(d, static_cast<T>(key + j - query - head.offset));
    s = hn::IfThenElse(outside, rule.hidden, rule(s, distance, added, outside));
    const auto out = hn::Or(outside, hn::Eq(added, rule.hidden));
    hn::StoreU(s, d, scores + j);
    hn::StoreU(hn::IfThenElse(out, hn::Set(d, T{1}), hn::LoadU(d, hides + j)), d, hides + j);
    some |= !hn::AllFalse(d, out);
  }
  return some;
}

// Scores (keys) of one row become weights relative to its running maximum.
template <class T>
HWY_INLINE void decode_softmax(Chunks<T> chunks, int64_t keys, T* HWY_RESTRICT scores, T& max, T* HWY_RESTRICT sums,
                               T* HWY_RESTRICT out) {
  const Lanes<T> d;
  const T nothing = -static_cast<T>(INFINITY);
  Vec<T> m = hn::Set(d, max);
  for (int64_t j = 0; j < keys; j += lanes<T>()) m = hn::Max(m, hn::LoadU(d, scores + j));
  const T now = hn::GetLane(hn::MaxOfLanes(d, m));
  const Vec<T> shift = hn::Set(d, now == nothing ? T{0} : now);  // -inf - -inf would be NaN
  Vec<T> total = hn::LoadU(d, sums);
  if (now != max) {
    const Vec<T> factor = exp_of_score(d, hn::Sub(hn::Set(d, max), shift));
    total = hn::Mul(total, factor);
    for (int64_t c = 0; c < chunks.width(); c += lanes<T>())
      hn::StoreU(hn::Mul(hn::LoadU(d, out + c), factor), d, out + c);
    max = now;
  }
  for (int64_t j = 0; j < keys; j += lanes<T>()) {
    const Vec<T> weight = exp_of_score(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    hn::StoreU(weight, d, scores + j);
    total = hn::Add(total, weight);
  }
  hn::StoreU(total, d, sums);
}

// out += weights v. A key that a row may not see and whose value is not finite is left out of the products, since
// 0 * NaN is NaN, and added to the rows that do see it.
template <class T, class S>
HWY_INLINE void decode_pv(const DecodeShape<T>& s, DecodeScratch<T>& scratch, bool some_hidden, int64_t key,
                          int64_t keys, const S* v, int64_t stride, T* out, Ahead<S> ahead) {
  const auto run = [&](int64_t from, int64_t to) HWY_ATTR {
    for_row_blocks(s.rows, [&](auto rows, int64_t r) HWY_ATTR {
      pv_rows<decltype(rows)::value>(s.v, scratch.scores + r * kDecodeKeys + from, v + from * stride, stride, to - from,
                                     out + r * s.v.width(), r == 0 && from == 0 ? ahead : Ahead<S>{});
    });
  };
  int64_t done = 0;
  for (int64_t j = 0; some_hidden && j < keys; ++j) {
    const S* const value = v + j * stride;
    if (scratch.hides[j] == 0 || row_is_finite(s.v, value)) continue;
    if (done < j) run(done, j);
    done = j + 1;
    for (int64_t row = 0; row < s.rows; ++row) {
      const Head<T>& head = scratch.heads[row / s.Lq];
      if (!head.visible(row % s.Lq, key + j)) continue;
      const T weight = scratch.scores[row * kDecodeKeys + j];
      for (int64_t at = 0; at < s.v.size; ++at) {
        out[row * s.v.width() + s.v.place(at)] += weight * head.v.get(key + j, at);
      }
    }
  }
  if (done < keys) run(done, keys);
}

// Keys [begin, end) of one entry and key head, for all its rows.
template <class T>
void decode_split(const Forward<T>& p, const DecodeShape<T>& s, int64_t b, int64_t hkv, int64_t number,
                  DecodeScratch<T>& scratch, Partial<T> partial) {
  const Lanes<T> d;
  for (int64_t n = 0; n < s.group; ++n) new (scratch.heads + n) Head<T>(p.head(b, hkv * s.group + n));
  const Head<T>& head = scratch.heads[0];
  const int64_t begin = head.key_begin(0) + number * s.split;
  const int64_t end = HWY_MIN(begin + s.split, head.key_end(s.Lq - 1));
  std::fill_n(partial.max, s.rows, -static_cast<T>(INFINITY));
  std::fill_n(partial.sum, s.rows, T{0});
  if (begin >= end) return;
  std::fill_n(partial.out, s.rows * s.v.width(), T{0});
  std::fill_n(scratch.sums, s.rows * lanes<T>(), T{0});
  load_queries(s, scratch);

  for (int64_t key = begin; key < end; key += kDecodeKeys) {
    const int64_t keys = HWY_MIN(end - key, kDecodeKeys), padded = round_to_lanes<T>(keys);
    with_storage<T>(head.k.storage, [&](auto element) HWY_ATTR {
      using S = decltype(element);
      const Source<T> k = head.k.from(key), v = head.v.from(key);
      const Ahead<S> values{static_cast<const S*>(v.data), v.row, s.v.size, keys};
      for_row_blocks(s.rows, [&](auto rows, int64_t r) HWY_ATTR {
        qk_rows<decltype(rows)::value>(s.qk, scratch.q + r * s.qk.width(), static_cast<const S*>(k.data), k.row, keys,
                                       scratch.scores + r * kDecodeKeys, r == 0 ? values : Ahead<S>{});
      });
    });
    std::fill_n(scratch.hides, padded, T{0});
    bool some_hidden = false;
    for (int64_t row = 0; row < s.rows; ++row) {
      T* const scores = scratch.scores + row * kDecodeKeys;
      some_hidden |=
          finish_scores(scratch.heads[row / s.Lq], row % s.Lq, key, keys, scores, scratch.bias, scratch.hides);
      decode_softmax(s.v, padded, scores, partial.max[row], scratch.sums + row * lanes<T>(),
                     partial.out + row * s.v.width());
    }
    with_storage<T>(head.v.storage, [&](auto element) HWY_ATTR {
      using S = decltype(element);
      const Source<T> v = head.v.from(key), k = head.k.from(key + keys);
      const Ahead<S> next{static_cast<const S*>(k.data), k.row, s.qk.size, head.Lk - key - keys};
      decode_pv(s, scratch, some_hidden, key, keys, static_cast<const S*>(v.data), v.row, partial.out, next);
    });
  }
  for (int64_t row = 0; row < s.rows; ++row)
    partial.sum[row] = sum_of_lanes(d, hn::LoadU(d, scratch.sums + row * lanes<T>()));
}

// ---- All splits together ----

template <class T>
HWY_INLINE T exp_of(T x) {
  const Lanes<T> d;
  return hn::GetLane(exp_of_score(d, hn::Set(d, x)));
}

// Writes the rows of one entry and key head, whose splits begin with unit `first`.
template <class T>
void merge_splits(const Forward<T>& p, const DecodeShape<T>& s, int64_t b, int64_t hkv, T* partials, int64_t first) {
  const Lanes<T> d;
  const T nothing = -static_cast<T>(INFINITY);
  for (int64_t row = 0; row < s.rows; ++row) {
    const int64_t h = hkv * s.group + row / s.Lq, i = row % s.Lq;
    const T sink = p.sinks ? p.sinks[h * p.sinks_stride] : nothing;
    T max = sink;
    for (int64_t n = 0; n < s.splits; ++n) max = HWY_MAX(max, Partial<T>(s, partials, first + n).max[row]);
    T sum = sink == nothing ? T{0} : exp_of(sink - max);
    T* const out = Partial<T>(s, partials, first).out + row * s.v.width();  // takes the sum of all splits
    bool any = false;
    for (int64_t n = 0; n < s.splits; ++n) {
      const Partial<T> part(s, partials, first + n);
      if (part.sum[row] == 0) continue;  // nothing visible
      const T factor = exp_of(part.max[row] - max);
      sum += factor * part.sum[row];
      const Vec<T> f = hn::Set(d, factor);
      const T* const from = part.out + row * s.v.width();
      for (int64_t c = 0; c < s.v.width(); c += lanes<T>()) {
        const Vec<T> x = hn::Mul(f, hn::LoadU(d, from + c));
        hn::StoreU(any ? hn::Add(hn::LoadU(d, out + c), x) : x, d, out + c);
      }
      any = true;
    }
    if (!any) std::fill_n(out, s.v.width(), T{0});
    const T factor = sum == 0 ? T{0} : 1 / sum;
    const Target<T> to = p.out.template target<T>(b, h, i);
    for (int64_t at = 0; at < s.v.size; ++at) to.set(0, at, factor * out[s.v.place(at)]);
    if (!p.lse) continue;
    const double log = std::log(static_cast<double>(sum));
    const T lse = sum == 0 ? nothing : static_cast<T>(static_cast<double>(max) + log);
    p.lse[p.lse_row(b, h) + i] = lse;
    if (p.lse_low)
      p.lse_low[p.lse_row(b, h) + i] =
          std::isfinite(lse) ? static_cast<T>(static_cast<double>(max) - static_cast<double>(lse) + log) : T{0};
  }
}

template <class T>
void run_decode(const Forward<T>& p, Executor& executor) {
  if (p.B == 0 || p.Hq == 0 || p.Lq == 0) return;
  const DecodeShape<T> s(p);
  const int64_t heads = p.B * p.Hkv, units = heads * s.splits;
  // Short caches: as many units a tile as make about a quarter million multiply-adds, so that dealing out costs little.
  const int64_t work = HWY_MAX(int64_t{1}, s.rows * HWY_MIN(s.split, p.Lk) * (p.D + p.Dv));
  const int64_t together = HWY_MAX(int64_t{1}, (int64_t{1} << 18) / work);
  const int64_t tiles = (units + together - 1) / together;
  ScratchSlots slots(p.workspace, DecodeScratch<T>::bytes(s), tiles, executor,
                     units * Partial<T>::size(s) * static_cast<int64_t>(sizeof(T)));
  T* const partials = reinterpret_cast<T*>(slots.shared());
  parallel_for(executor, tiles, [&](int64_t tile) HWY_ATTR {
    Scratch memory(slots);
    DecodeScratch<T> scratch(s, memory);
    for (int64_t unit = tile * together; unit < HWY_MIN(units, (tile + 1) * together); ++unit) {
      const int64_t head = unit / s.splits;
      decode_split(p, s, head / p.Hkv, head % p.Hkv, unit % s.splits, scratch, Partial<T>(s, partials, unit));
      if (s.splits == 1) merge_splits(p, s, head / p.Hkv, head % p.Hkv, partials, unit);
    }
  });
  if (s.splits == 1) return;
  parallel_for(executor, heads, [&](int64_t head) HWY_ATTR {
    merge_splits(p, s, head / p.Hkv, head % p.Hkv, partials, head * s.splits);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_ATTENTION_DECODE_INL_H_
