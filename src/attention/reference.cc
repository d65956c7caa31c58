#include "attention/reference.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "attention/dropout.h"

namespace heed::inline v0 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

/// (rows, width), all 0.
std::vector<Row> zeros(int64_t rows, int64_t width) {
  return std::vector<Row>(static_cast<size_t>(rows), Row(static_cast<size_t>(width), 0.0));
}

template <class T>
double dot(const Source<T>& a, int64_t i, const Source<T>& b, int64_t j, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += static_cast<double>(a.get(i, d)) * static_cast<double>(b.get(j, d));
  return sum;
}

/// y += factor * x_i
template <class T>
void add(double factor, const Source<T>& x, int64_t i, Row& y) {
  for (size_t d = 0; d < y.size(); ++d) y[d] += factor * static_cast<double>(x.get(i, static_cast<int64_t>(d)));
}

template <class T>
void write(const Row& row, const Target<T>& to, int64_t i) {
  for (size_t d = 0; d < row.size(); ++d) to.set(i, static_cast<int64_t>(d), static_cast<T>(row[d]));
}

/// scale * q_i . k_j
template <class T>
double scaled_score(const Problem<T>& p, const Head<T>& head, int64_t i, int64_t j) {
  return p.scale * dot(head.q, i, head.k, j, p.D);
}

template <class T>
double capped_score(const Problem<T>& p, const Head<T>& head, int64_t i, int64_t j) {
  const double s = scaled_score(p, head, i, j);
  return p.softcap > 0 ? p.softcap * std::tanh(s / p.softcap) : s;
}

/// The caller's function of a score, and where asked for its derivative.
template <class T>
double modified(const Head<T>& head, int64_t i, int64_t j, double score, double* derivative = nullptr) {
  if (!head.score_mod) return score;
  double scores[kScoreLanes] = {score}, derivatives[kScoreLanes] = {};
  Head<double> place;
  place.place = head.place;
  (*head.score_mod)(place.one_score(i, j, scores, derivative ? derivatives : nullptr));
  if (derivative) *derivative = derivatives[0];
  return scores[0];
}

/// What dropout multiplies the weight of key j for query i by.
template <class T>
double kept_factor(const Dropout& dropout, const Head<T>& head, int64_t i, int64_t j) {
  return dropout_factor(dropout, head.number, head.place.query + i, head.place.key + j);
}

/// The score of key j for query i as it enters the softmax: -inf where the key is hidden. A number of T, as its sum
/// with an additive mask is: -1e9 leaves nothing of a score.
template <class T>
double masked_score(const Problem<T>& p, const Head<T>& head, int64_t i, int64_t j) {
  if (!head.visible(i, j)) return -kInfinity;  // nothing of the key is read
  const double distance = std::fabs(static_cast<double>(i + head.offset - j));
  const double s = modified(head, i, j, capped_score(p, head, i, j)) - static_cast<double>(head.alibi) * distance;
  return static_cast<double>(static_cast<T>(s) + head.bias(i, j));
}

/// A row's scores, the sink's not among them, and their logarithm of a sum of exp: max + log.
struct ScoredRow {
  Row scores;
  double max = -kInfinity, log = 0;
  bool sees_nothing() const { return max == -kInfinity; }
  double weight(double score) const { return score == -kInfinity ? 0 : std::exp(score - max - log); }
  /// max + log as T, and what rounding it leaves.
  template <class T>
  std::pair<T, T> lse() const {
    const T high = static_cast<T>(sees_nothing() ? max : max + log);
    return {high, std::isfinite(high) ? static_cast<T>(max - static_cast<double>(high) + log) : T{0}};
  }
};

template <class T>
ScoredRow scored_row(const Problem<T>& p, const Head<T>& head, int64_t i) {
  ScoredRow row;
  const double sink = head.has_sink ? static_cast<double>(head.sink) : -kInfinity;
  row.max = sink;
  for (int64_t j = 0; j < head.Lk; ++j) {
    const double s = masked_score(p, head, i, j);
    row.scores.push_back(s);
    row.max = std::isnan(row.max) || s <= row.max ? row.max : s;  // a NaN becomes the maximum, and stays
  }
  if (row.sees_nothing()) return row;
  double sum = std::exp(sink - row.max);
  for (const double s : row.scores) sum += std::exp(s - row.max);
  row.log = std::log(sum);
  return row;
}

/// softmax(scores) V for one row.
template <class T>
void forward_row(const Forward<T>& p, const Head<T>& head, const Dropout& dropout, int64_t i) {
  const ScoredRow row = scored_row(p, head, i);
  Row out(static_cast<size_t>(p.Dv), 0.0);
  for (int64_t j = 0; j < head.Lk; ++j) {
    const double s = row.scores[static_cast<size_t>(j)];
    if (s == -kInfinity) continue;  // 0 * NaN would be NaN
    const double factor = p.dropout > 0 ? kept_factor(dropout, head, i, j) : 1;
    add(factor * row.weight(s), head.v, j, out);
  }
  write(out, p.out.template target<T>(head.b, head.h, p.query_row(head.b)), i);
  const auto [high, low] = row.lse<T>();
  if (p.lse) p.lse[p.lse_row(head.b, head.h) + i] = high;
  if (p.lse_low) p.lse_low[p.lse_row(head.b, head.h) + i] = low;
}

/// The gradients that pass through one pair of query and key.
struct Pair {
  bool hidden = true;
  double kept = 0;      // the weight after dropout
  double dscore = 0;    // d loss / d score, the score as it enters the softmax
  double received = 0;  // the score as score_mod received it
  double dproduct = 0;  // d loss / d (q . k)
};

/// Of one (entry, query head).
template <class T>
struct HeadGradients {
  const Backward<T>& p;
  const Dropout dropout;
  const Head<T> head;
  const Source<T> grad_out, out;  // (Lq, Dv)

  HeadGradients(const Backward<T>& problem, int64_t b, int64_t h)
      : p(problem),
        dropout(dropout_of(p)),
        head(p.head(b, h)),
        grad_out(p.grad_out.template source<T>(b, h, p.query_row(b))),
        out(p.out.template source<T>(b, h, p.query_row(b))) {}

  double lse(int64_t i) const { return static_cast<double>(p.lse[p.lse_row(head.b, head.h) + i]); }
  double lse_low(int64_t i) const {
    return p.lse_low ? static_cast<double>(p.lse_low[p.lse_row(head.b, head.h) + i]) : 0;
  }
  double dlse(int64_t i) const {
    return p.grad_lse ? static_cast<double>(p.grad_lse[p.lse_row(head.b, head.h) + i]) : 0;
  }
  /// What every score of row i gets in proportion to its weight: d lse, and the softmax's own -sum(weight * dweight).
  double shared(int64_t i) const { return dlse(i) - dot(grad_out, i, out, i, p.Dv); }
  Pair pair(int64_t i, int64_t j) const {
    Pair r;
    const double score = masked_score(p, head, i, j);
    if (score == -kInfinity) return r;
    r.hidden = false;
    const double weight = std::exp(score - lse(i) - lse_low(i));
    const double factor = p.dropout > 0 ? kept_factor(dropout, head, i, j) : 1;
    r.kept = weight * factor;
    r.dscore = weight * (factor * dot(grad_out, i, head.v, j, p.Dv) + shared(i));
    r.received = capped_score(p, head, i, j);
    double slope = 1;  // of score_mod
    modified(head, i, j, r.received, &slope);
    if (p.softcap > 0) slope *= 1 - r.received / p.softcap * (r.received / p.softcap);
    r.dproduct = r.dscore * slope * p.scale;
    return r;
  }
  double dsink(int64_t i) const {
    const auto sink = static_cast<double>(head.sink);
    if (sink == -kInfinity) return 0;
    bool sees = false;  // a row that does not has out 0 whatever the sink is, and a NaN in its gradient goes nowhere
    for (int64_t j = 0; j < head.Lk && !sees; ++j) sees = head.visible(i, j);
    return std::exp(sink - lse(i) - lse_low(i)) * (sees ? shared(i) : dlse(i));
  }
};

/// dk and dv of one key head, and dq of the query heads that read it.
template <class T>
void key_head_gradients(const Backward<T>& p, int64_t b, int64_t hkv) {
  const int64_t keys = p.ragged ? p.keys(b) : p.Lk;  // hidden ones too
  std::vector<Row> dk = zeros(keys, p.D), dv = zeros(keys, p.Dv);
  for (int64_t h = hkv * p.group(); h < (hkv + 1) * p.group(); ++h) {
    const HeadGradients<T> g(p, b, h);
    for (int64_t i = 0; i < g.head.Lq; ++i) {
      Row dq(static_cast<size_t>(p.D), 0.0);
      for (int64_t j = 0; j < g.head.Lk; ++j) {
        const Pair pair = g.pair(i, j);
        if (pair.hidden) continue;  // 0 * NaN would be NaN
        add(pair.kept, g.grad_out, i, dv[static_cast<size_t>(j)]);
        add(pair.dproduct, g.head.q, i, dk[static_cast<size_t>(j)]);
        add(pair.dproduct, g.head.k, j, dq);
      }
      write(dq, p.dq.template target<T>(b, h, p.query_row(b)), i);
    }
  }
  for (int64_t j = 0; j < keys; ++j) {
    write(dk[static_cast<size_t>(j)], p.dk.template target<T>(b, hkv, p.key_row(b)), j);
    write(dv[static_cast<size_t>(j)], p.dv.template target<T>(b, hkv, p.key_row(b)), j);
  }
}

/// The mask's gradient is the score's, summed over the dimensions along which the mask is broadcast.
template <class T>
void mask_gradient(const Backward<T>& p) {
  int64_t size = 1;
  for (const int64_t n : p.mask_sizes) size *= n;
  Row sum(static_cast<size_t>(size), 0.0);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.Hq; ++h) {
      const HeadGradients<T> g(p, b, h);
      for (int64_t i = 0; i < g.head.Lq; ++i)
        for (int64_t j = 0; j < g.head.Lk; ++j)
          sum[static_cast<size_t>(p.dmask_offset(b, h, i, j))] += g.pair(i, j).dscore;
    }
  std::transform(sum.begin(), sum.end(), p.dmask, [](double x) { return static_cast<T>(x); });
}

template <class T>
void sink_gradient(const Backward<T>& p) {
  for (int64_t h = 0; h < p.Hq; ++h) {
    double sum = 0;
    for (int64_t b = 0; b < p.B; ++b) {
      const HeadGradients<T> g(p, b, h);
      for (int64_t i = 0; i < g.head.Lq; ++i) sum += g.dsink(i);
    }
    p.dsinks[h] = static_cast<T>(sum);
  }
}

/// Tile by tile, one after another.
template <class T>
void visit(const Backward<T>& p) {
  std::vector<T> gradients(kTile * kTile), scores(kTile * kTile);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.Hq; ++h) {
      const HeadGradients<T> g(p, b, h);
      for (int64_t query = 0; query < g.head.Lq; query += kTile)
        for (int64_t key = 0; key < g.head.Lk; key += kTile) {
          const int64_t queries = std::min(kTile, g.head.Lq - query), keys = std::min(kTile, g.head.Lk - key);
          for (int64_t j = 0; j < keys; ++j)
            for (int64_t i = 0; i < queries; ++i) {
              const Pair pair = g.pair(query + i, key + j);
              gradients[static_cast<size_t>(j * kTile + i)] = static_cast<T>(pair.dscore);
              scores[static_cast<size_t>(j * kTile + i)] = static_cast<T>(pair.received);
            }
          (*p.visitor)(ScoreGradientTile<T>{
              static_cast<int32_t>(g.head.place.batch), static_cast<int32_t>(g.head.place.head),
              static_cast<int32_t>(g.head.place.query + query), static_cast<int32_t>(g.head.place.key + key),
              static_cast<int32_t>(queries), static_cast<int32_t>(keys), kTile, gradients.data(), scores.data()});
        }
    }
}

/// One row of weights, or of scores on their way to them.
template <class T>
Row inspected_row(const Inspection<T>& p, const Head<T>& head, int64_t i) {
  if (p.stage == ScoreStage::masked || p.stage == ScoreStage::weights) {
    const ScoredRow scored = scored_row(p, head, i);
    Row row = scored.scores;
    if (p.stage == ScoreStage::weights)
      for (double& x : row) x = scored.weight(x);
    row.resize(static_cast<size_t>(p.width), p.stage == ScoreStage::weights ? 0.0 : -kInfinity);
    return row;
  }
  Row row(static_cast<size_t>(p.width), -kInfinity);
  const int64_t keys = p.ragged ? p.keys(head.b) : p.Lk;  // before the mask, hidden keys have a score
  for (int64_t j = 0; j < keys; ++j)
    row[static_cast<size_t>(j)] =
        p.stage == ScoreStage::scaled ? scaled_score(p, head, i, j) : capped_score(p, head, i, j);
  return row;
}

/// The fewest largest weights whose sum reaches top_p, or all that are not 0; of equal ones the lower key first.
template <class T>
TopRow<T> top_row(const Row& weights, double top_p) {
  const auto weight = [&](int64_t j) { return weights[static_cast<size_t>(j)]; };
  std::vector<int64_t> order;
  for (int64_t j = 0; j < static_cast<int64_t>(weights.size()); ++j)
    if (weight(j) > 0) order.push_back(j);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return weight(x) > weight(y); });
  TopRow<T> top;
  double sum = 0;
  for (size_t n = 0; n < order.size() && sum < top_p; ++n) {
    top.keys.push_back(order[n]);
    top.weights.push_back(static_cast<T>(weight(order[n])));
    sum += weight(order[n]);
  }
  return top;
}

}  // namespace

template <class T>
void reference_forward(const Forward<T>& p, Executor& executor) {
  const Dropout dropout = dropout_of(p);
  parallel_for(executor, p.B * p.Hq, [&](int64_t number) {
    const Head<T> head = p.head(number / p.Hq, number % p.Hq);
    for (int64_t i = 0; i < head.Lq; ++i) forward_row(p, head, dropout, i);
  });
}

template <class T>
void reference_large_lse(const Problem<T>& p, T* lse, T* lse_low, Executor& executor) {
  parallel_for(executor, p.B * p.Hq, [&](int64_t number) {
    const Head<T> head = p.head(number / p.Hq, number % p.Hq);
    const int64_t first = p.lse_row(head.b, head.h);
    for (int64_t i = 0; i < head.Lq; ++i)
      if (is_large(lse[first + i]))
        std::tie(lse[first + i], lse_low[first + i]) = scored_row(p, head, i).template lse<T>();
  });
}

template <class T>
void reference_backward(const Backward<T>& p, Executor& executor) {
  parallel_for(executor, p.B * p.Hkv, [&](int64_t number) { key_head_gradients(p, number / p.Hkv, number % p.Hkv); });
  if (p.dmask) mask_gradient(p);
  if (p.dsinks) sink_gradient(p);
  if (p.visitor) visit(p);
}

template <class T>
void reference_inspect(const Inspection<T>& p, Executor& executor, std::vector<TopRow<T>>* top) {
  parallel_for(executor, p.B * p.N, [&](int64_t number) {
    const int64_t b = number / p.N, n = number % p.N;
    const Head<T> head = p.head(b, p.heads ? p.heads[n] : n);
    const int64_t rows = p.ragged ? head.Lq : p.R;
    const int64_t first = p.ragged ? n * p.Tq + p.query_row(b) : number * p.R;  // of (B, N, R), or of (N, Tq)
    for (int64_t r = 0; r < rows; ++r) {
      const Row row = inspected_row(p, head, p.rows ? p.rows[r] : r);
      if (p.top_p < 1) {
        (*top)[static_cast<size_t>(first + r)] = top_row<T>(row, p.top_p);
      } else {
        std::transform(row.begin(), row.end(), p.dense + (first + r) * p.width,
                       [](double x) { return static_cast<T>(x); });
      }
    }
  });
}

template void reference_forward(const Forward<float>&, Executor&);
template void reference_forward(const Forward<double>&, Executor&);
template void reference_large_lse(const Problem<float>&, float*, float*, Executor&);
template void reference_large_lse(const Problem<double>&, double*, double*, Executor&);
template void reference_backward(const Backward<float>&, Executor&);
template void reference_backward(const Backward<double>&, Executor&);
template void reference_inspect(const Inspection<float>&, Executor&, std::vector<TopRow<float>>*);
template void reference_inspect(const Inspection<double>&, Executor&, std::vector<TopRow<double>>*);

}  // namespace heed::inline v0
