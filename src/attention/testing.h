// Textbook attention with whole matrices, written apart from the library: what its tests compare against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "core/philox.h"
#include "heed/attention.h"

namespace heed::test {

inline Tensor random_tensor(const Dims& shape, uint64_t seed, DType dtype = DType::f64, double scale = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  const Tensor t = Tensor::empty(shape, DType::f64);
  for (double& x : t.span<double>()) x = normal(generator);
  return t.to(dtype);
}

/// The same values in memory of another layout: rows padded by `gap`, the two dimensions in the middle exchanged.
inline Tensor strided_copy(const Tensor& t, int64_t gap = 3) {
  Dims wide = t.shape();
  const int last = wide.rank() - 1;
  wide[last] += gap;
  std::swap(wide[last - 1], wide[last - 2]);
  const Tensor memory = Tensor::full(wide, std::numeric_limits<double>::quiet_NaN(), t.dtype());
  const Tensor view = memory.transpose(last - 1, last - 2).slice(last, 0, t.size(last));
  view.copy_from(t);
  return view;
}

/// sum += x, as numbers of T are added.
template <class T>
void add_in(T x, double& sum) {
  sum = static_cast<double>(static_cast<T>(sum) + x);
}

/// Numbers in rows, as the textbook computes with them.
template <class T>
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<T> values;

  Matrix(int64_t r, int64_t c, T value = 0) : rows(r), columns(c), values(static_cast<size_t>(r * c), value) {}
  explicit Matrix(const Tensor& t) : Matrix(t.size(0), t.size(1)) {  // (rows, columns)
    const Tensor from = t.to(DType::f64).contiguous();
    for (size_t n = 0; n < values.size(); ++n) values[n] = static_cast<T>(from.data<double>()[n]);
  }
  T* operator[](int64_t i) { return values.data() + i * columns; }
  const T* operator[](int64_t i) const { return values.data() + i * columns; }
  Matrix transposed() const {
    Matrix t(columns, rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) t[j][i] = (*this)[i][j];
    return t;
  }
  /// Adds itself to a tensor in double, each sum rounded to T.
  void add_to(const Tensor& t) const {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) add_in<T>((*this)[i][j], t.at<double>(i, j));
  }
};

/// sum += factor * x
template <class T>
void add(T factor, const T* x, T* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

/// The rules of visibility and of positions, for one entry and query head.
struct Rules {
  const AttentionOptions& options;
  int64_t b, h, Lq, Lk;  // of this entry
  int64_t length;        // keys before which all are hidden
  int64_t offset;        // key position of query 0
  Tensor mask{};         // (Lq, keys) of this head, keys <= Lk

  Rules(const AttentionOptions& o, int64_t b_, int64_t h_, int64_t B, int64_t Hq, int64_t Lq_, int64_t Lk_)
      : options(o), b(b_), h(h_), Lq(Lq_), Lk(Lk_), length(Lk_) {
    if (o.key_lengths.defined()) length = static_cast<int64_t>(o.key_lengths.slice(0, b, b + 1).item());
    offset = o.causal == Causal::bottom_right ? length - Lq : o.offset;
    if (o.mask.defined()) {
      const int64_t keys = o.mask.rank() > 0 && o.mask.size(-1) > 1 ? o.mask.size(-1) : Lk;
      mask = o.mask.expand({B, Hq, Lq, keys}).select(0, b).select(0, h);
    }
  }
  /// What the mask adds.
  double added(int64_t i, int64_t j) const {
    if (!mask.defined()) return 0;
    if (j >= mask.size(1)) return -INFINITY;
    if (mask.dtype() == DType::boolean) return mask.at<bool>(i, j) ? 0 : -INFINITY;
    return mask.dtype() == DType::f64 ? mask.at<double>(i, j) : static_cast<double>(mask.at<float>(i, j));
  }
  ScoreAt at(int64_t i, int64_t j) const {
    return {static_cast<int32_t>(b), static_cast<int32_t>(h), static_cast<int32_t>(i), static_cast<int32_t>(j)};
  }
  bool open(int64_t i, int64_t j) const {
    const int64_t position = i + offset;
    if (j >= length || (options.causal != Causal::none && j > position)) return false;
    if (options.window.left >= 0 && j < position - options.window.left) return false;
    if (options.window.right >= 0 && j > position + options.window.right) return false;
    if (added(i, j) == -INFINITY) return false;
    return !options.block_mask || through(options.block_mask, i, j, 0.0).value == 0;
  }
  struct Scored {
    double value, derivative;
  };
  /// One score through a score_mod or a block_mask. In float where T is float.
  template <class Mod, class T>
  Scored through(const Mod& mod, int64_t i, int64_t j, T score) const {
    T scores[kScoreLanes] = {score}, derivatives[kScoreLanes] = {};
    ScoreTile<T> tile;
    tile.batch = static_cast<int32_t>(b), tile.head = static_cast<int32_t>(h);
    tile.query = static_cast<int32_t>(i), tile.key = static_cast<int32_t>(j);
    tile.queries = tile.keys = 1;
    tile.pitch = kScoreLanes;
    tile.scores = scores;
    mod(tile);
    const double value = scores[0];
    if constexpr (std::is_same_v<Mod, ScoreMod>) {
      scores[0] = score;
      tile.derivatives = derivatives;
      mod(tile);
    }
    return {value, derivatives[0]};
  }
};

/// A score_mod by hand: the new score and d new / d old. The textbook asks options.score_mod where it is empty.
using Derived = std::function<Rules::Scored(double score, ScoreAt at)>;

/// Everything in double, shaped as in AttentionResult and AttentionGradients.
struct Textbook {
  Tensor out, lse, weights;          // as AttentionResult
  Tensor scores;                     // at the stage asked for
  Tensor dq, dk, dv, dmask, dsinks;  // as AttentionGradients, where a gradient was given
};

/// Sums in T (float, double or long double), one head at a time, every matrix in full. A hidden pair is skipped, not
/// multiplied by 0. Ragged batches go entry by entry.
template <class T>
Textbook textbook(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                  const Tensor& grad = {}, const Tensor& grad_lse = {}, const Derived& mod = {}) {
  const bool ragged = options.q_offsets.defined();
  const auto zeros = [](const Dims& shape, double value = 0) { return Tensor::full(shape, value, DType::f64); };
  const int64_t B = ragged ? options.q_offsets.size(0) - 1 : q.size(0);
  const int64_t Hq = q.size(1), Hkv = k.size(1), D = q.size(-1), Dv = v.size(-1);
  const auto starts = [](const Tensor& offsets) {
    std::vector<int64_t> list;
    for (int64_t b = 0; offsets.defined() && b < offsets.size(0); ++b)
      list.push_back(static_cast<int64_t>(offsets.slice(0, b, b + 1).item()));
    return list;
  };
  const std::vector<int64_t> q_from = starts(options.q_offsets), k_from = starts(options.k_offsets);
  int64_t longest = ragged ? 0 : k.size(2);
  for (size_t b = 1; b < k_from.size(); ++b) longest = std::max(longest, k_from[b] - k_from[b - 1]);
  // The matrix (L, width) of entry b and head h, of a tensor (B, H, L, width), (T, H, width) or (H, T, width).
  const auto from = [](const std::vector<int64_t>& list, int64_t b) { return list[static_cast<size_t>(b)]; };
  const auto part = [&](const Tensor& t, const std::vector<int64_t>& rows, int64_t b, int64_t h) {
    if (!ragged) return t.select(0, b).select(0, h);
    return t.select(1, h).slice(0, from(rows, b), from(rows, b + 1));
  };
  const auto wide = [&](const Tensor& t, int64_t b, int64_t h) {
    if (!ragged) return t.select(0, b).select(0, h);
    return t.select(0, h).slice(0, from(q_from, b), from(q_from, b + 1));
  };

  Textbook r;
  Dims out_shape = q.shape(), rows = ragged ? Dims{Hq, q.size(0)} : Dims{B, Hq, q.size(2)};
  out_shape.back() = Dv;
  r.out = zeros(out_shape);
  r.lse = zeros(rows, -INFINITY);
  Dims pairs = rows;
  pairs.push_back(longest);
  r.weights = zeros(pairs);
  const bool want_scores = options.want_scores.has_value();
  const ScoreStage stage = options.want_scores.value_or(ScoreStage::weights);
  if (want_scores) r.scores = zeros(pairs, stage == ScoreStage::weights ? 0 : -INFINITY);
  if (grad.defined()) {
    r.dq = zeros(q.shape()), r.dk = zeros(k.shape()), r.dv = zeros(v.shape());
    if (options.mask.defined() && options.mask.dtype() != DType::boolean) r.dmask = zeros(options.mask.shape());
    if (options.sinks.defined()) r.dsinks = zeros({Hq});
  }
  const T inf = std::numeric_limits<T>::infinity();
  const T scale = static_cast<T>(options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(D)));
  const T cap = static_cast<T>(options.softcap);
  const auto of_head = [](const Tensor& t, int64_t h) { return static_cast<T>(t.slice(0, h, h + 1).item()); };
  const PhiloxCounter first =
      philox4x32({static_cast<uint32_t>(options.stream), static_cast<uint32_t>(options.stream >> 32), 0x6174746Eu, 0},
                 philox_key(options.seed));

  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < Hq; ++h) {
      const int64_t hk = h * Hkv / Hq;
      const Matrix<T> Q(part(q, q_from, b, h)), K(part(k, k_from, b, hk)), V(part(v, k_from, b, hk));
      const Matrix<T> Kt = K.transposed(), Vt = V.transposed();
      const int64_t Lq = Q.rows, Lk = K.rows;
      const Rules rules(options, b, h, B, Hq, Lq, Lk);
      const T slope = options.alibi.defined() ? of_head(options.alibi, h) : 0;
      const T sink = options.sinks.defined() ? of_head(options.sinks, h) : -inf;
      const Tensor lse = wide(r.lse, b, h), weights = wide(r.weights, b, h);
      Tensor scores, dlse, dmask;  // (Lq, longest), (Lq), (Lq, keys)
      if (want_scores) scores = wide(r.scores, b, h);
      if (grad_lse.defined()) dlse = wide(grad_lse.to(DType::f64), b, h);
      if (r.dmask.defined()) dmask = r.dmask.expand({B, Hq, Lq, rules.mask.size(1)}).select(0, b).select(0, h);
      Matrix<T> G(0, 0), dQ(Lq, D), dK(Lk, D), dV(Lk, Dv), O(Lq, Dv);
      if (grad.defined()) G = Matrix<T>(part(grad, q_from, b, h));
      T dsink = 0;

      for (int64_t i = 0; i < Lq; ++i) {
        std::vector<T> s(static_cast<size_t>(Lk)), slopes(s.size(), scale), keep(s.size(), 1);
        std::vector<char> open(s.size());
        const auto n = [](int64_t j) { return static_cast<size_t>(j); };
        const auto show = [&](ScoreStage at, int64_t j, T value) {
          if (want_scores && stage == at) scores.at<double>(i, j) = static_cast<double>(value);
        };
        for (int64_t d = 0; d < D; ++d) add(Q[i][d], Kt[d], s.data(), Lk);
        T max = sink;
        bool any = options.sinks.defined();
        for (int64_t j = 0; j < Lk; ++j) {
          T& x = s[n(j)];
          x *= scale;
          show(ScoreStage::scaled, j, x);
          if (cap != 0) {
            const T t = std::tanh(x / cap);
            x = cap * t;
            slopes[n(j)] *= 1 - t * t;
          }
          show(ScoreStage::softcap, j, x);
          open[n(j)] = rules.open(i, j);
          if (!open[n(j)]) continue;
          if (options.score_mod) {
            using Number = std::conditional_t<std::is_same_v<T, float>, float, double>;
            const Rules::Scored y = mod ? mod(static_cast<double>(x), rules.at(i, j))
                                        : rules.through(options.score_mod, i, j, static_cast<Number>(x));
            x = static_cast<T>(y.value);
            slopes[n(j)] *= static_cast<T>(y.derivative);
          }
          x += static_cast<T>(rules.added(i, j));
          x -= slope * static_cast<T>(std::abs(i + rules.offset - j));
          show(ScoreStage::masked, j, x);
          max = std::max(max, x);
          any = true;
          if (options.dropout > 0) {
            const PhiloxCounter draw = philox4x32(
                {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(i), static_cast<uint32_t>(b * Hq + h), 0},
                {first[0], first[1]});
            const bool kept = draw[n(j % 4)] < keep_threshold(options.dropout);
            keep[n(j)] = static_cast<T>(kept ? 1 / (1 - options.dropout) : 0);
          }
        }
        if (!any) continue;

        T sum = options.sinks.defined() ? std::exp(sink - max) : 0;
        const T sink_weight = sum;
        for (int64_t j = 0; j < Lk; ++j)
          if (open[n(j)]) sum += s[n(j)] = std::exp(s[n(j)] - max);
        lse.at<double>(i) = static_cast<double>(max + std::log(sum));
        for (int64_t j = 0; j < Lk; ++j) {
          if (!open[n(j)]) continue;
          s[n(j)] /= sum;
          weights.at<double>(i, j) = static_cast<double>(s[n(j)]);
          show(ScoreStage::weights, j, s[n(j)]);
          add(s[n(j)] * keep[n(j)], V[j], O[i], Dv);
        }
        if (!grad.defined()) continue;

        std::vector<T> dP(s.size());
        T mean = dlse.defined() ? -static_cast<T>(dlse.at<double>(i))
                                : T{0};  // with the sum over keys of P dP, the softmax's own gradient
        for (int64_t d = 0; d < Dv; ++d) add(G[i][d], Vt[d], dP.data(), Lk);
        for (int64_t j = 0; j < Lk; ++j) {
          if (!open[n(j)]) continue;
          add(s[n(j)] * keep[n(j)], G[i], dV[j], Dv);
          dP[n(j)] *= keep[n(j)];
          mean += s[n(j)] * dP[n(j)];
        }
        dsink -= sink_weight / sum * mean;
        for (int64_t j = 0; j < Lk; ++j) {
          if (!open[n(j)]) continue;
          const T ds = s[n(j)] * (dP[n(j)] - mean);
          if (dmask.defined()) add_in(ds, dmask.at<double>(i, j));
          add(slopes[n(j)] * ds, K[j], dQ[i], D);
          add(slopes[n(j)] * ds, Q[i], dK[j], D);
        }
      }
      O.add_to(part(r.out, q_from, b, h));
      if (!grad.defined()) continue;
      dQ.add_to(part(r.dq, q_from, b, h));
      dK.add_to(part(r.dk, k_from, b, hk));
      dV.add_to(part(r.dv, k_from, b, hk));
      if (r.dsinks.defined()) add_in(dsink, r.dsinks.at<double>(h));
    }
  }
  return r;
}

/// The largest |a - b|; infinite where one is NaN and the other is not, or infinities differ.
inline double max_error(const Tensor& a_any, const Tensor& b_any) {
  const Tensor a = a_any.to(DType::f64).contiguous(), b = b_any.to(DType::f64).contiguous();
  if (!(a.shape() == b.shape())) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::fabs(x - y);
    worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
  }
  return worst;
}

inline double max_abs(const Tensor& a_any) {
  const Tensor a = a_any.to(DType::f64).contiguous();
  double worst = 0;
  for (const double x : a.span<double>())
    if (std::isfinite(x)) worst = std::max(worst, std::fabs(x));
  return worst;
}

inline bool same_bits(const Tensor& a_any, const Tensor& b_any) {
  const Tensor a = a_any.contiguous(), b = b_any.contiguous();
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  return a.numel() == 0 || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

/// Largest distance between 1 and the next number.
inline double epsilon(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

/// What a dtype is computed in.
inline DType compute_type(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

/// One call of forward and backward with its inputs, and its score_mod by hand.
struct Call {
  Tensor q, k, v, grad, grad_lse{};
  AttentionOptions options{};
  Derived mod{};

  bool additive() const { return options.mask.defined() && options.mask.dtype() != DType::boolean; }
  template <class T>
  Textbook book() const {
    return textbook<T>(q, k, v, options, grad, grad_lse, mod);
  }
};

/// What operands are kept in: q and all that is like it, k and v, an additive mask.
struct Kept {
  DType q, keys, mask;
  Kept(DType all) : Kept(all, all, compute_type(all)) {}
  Kept(DType of_q, DType of_keys, DType of_mask) : q(of_q), keys(of_keys), mask(of_mask) {}
};

/// A call with its operands kept so, what else goes with its scores in the compute type; `strided`: every operand lies
/// scattered.
inline Call converted(const Call& call, const Kept& kept, bool strided = false) {
  Call r = call;
  const std::pair<Tensor*, DType> operands[] = {
      {&r.q, kept.q}, {&r.k, kept.keys}, {&r.v, kept.keys}, {&r.grad, kept.q}};
  for (const auto& [t, dtype] : operands) {
    *t = t->to(dtype);
    if (strided) *t = strided_copy(*t);
  }
  if (r.additive()) r.options.mask = r.options.mask.to(kept.mask);
  for (Tensor* t : {&r.options.alibi, &r.options.sinks, &r.grad_lse})
    if (t->defined()) *t = t->to(compute_type(kept.q));
  return r;
}

/// The call's numbers as they are when kept so, in double again.
inline Call rounded(const Call& call, const Kept& kept) { return converted(converted(call, kept), DType::f64); }

struct Outputs {
  AttentionResult result;
  AttentionGradients gradients;
};

/// Forward and backward with everything that the call has a gradient for.
inline Outputs run(const Call& call, Executor* executor = nullptr) {
  AttentionOptions o = call.options;
  o.want_lse = o.want_weights = true;
  if (executor) o.executor = executor;
  Outputs r;
  r.result = attention(call.q, call.k, call.v, o);
  r.gradients =
      attention_backward(call.grad, call.q, call.k, call.v, r.result, o,
                         {.want_mask = call.additive(), .want_sinks = o.sinks.defined(), .grad_lse = call.grad_lse});
  return r;
}

/// The rule that this library's accuracy is held to: the error against a finer type is at most `factor` times that of
/// the textbook computed in the same type, plus 4 eps of the largest value (the rule of FlashAttention's tests) and of
/// what the values move by where an input of theirs does: a textbook that happens to be lucky is not the measure.
struct Accuracy {
  const char* name;
  Tensor value, exact, plain;
  double factor;         // 2 forward, 3 for gradients
  double condition = 0;  // change of a value for a relative change of what it is computed from
  double allowed(double epsilon) const {
    return factor * max_error(plain, exact) + 4 * epsilon * (max_abs(exact) + condition);
  }
  double error() const { return max_error(value, exact); }
};

/// The most that a weight e^(score - lse) moves by for a relative change of its score.
inline double condition_of_weights(const Textbook& exact) {
  if (!exact.weights.defined()) return 0;
  const Tensor weights = exact.weights.contiguous(), lse = exact.lse.contiguous();
  const int64_t keys = weights.size(-1);
  double most = 0;
  for (int64_t n = 0; n < weights.numel(); ++n) {
    const double w = weights.data<double>()[n];
    if (w > 0) most = std::max(most, w * std::fabs(std::log(w) + lse.data<double>()[n / keys]));
  }
  return most;
}

/// Every output and gradient that is defined.
inline std::vector<Accuracy> accuracies(const Outputs& o, const Textbook& exact, const Textbook& plain) {
  const AttentionResult& r = o.result;
  const AttentionGradients& g = o.gradients;
  std::vector<Accuracy> list;
  const auto check = [&](const char* name, const Tensor& value, const Tensor& e, const Tensor& p, double factor,
                         double condition = 0) {
    if (value.defined()) list.push_back({name, value, e, p, factor, condition});
  };
  check("out", r.out, exact.out, plain.out, 2);
  check("lse", r.lse, exact.lse, plain.lse, 2);
  check("weights", r.weights, exact.weights, plain.weights, 2, condition_of_weights(exact));
  check("scores", r.scores, exact.scores, plain.scores, 2);
  check("dq", g.q, exact.dq, plain.dq, 3);
  check("dk", g.k, exact.dk, plain.dk, 3);
  check("dv", g.v, exact.dv, plain.dv, 3);
  check("dmask", g.mask, exact.dmask, plain.dmask, 3);
  check("dsinks", g.sinks, exact.dsinks, plain.dsinks, 3);
  return list;
}

/// The message of the ShapeError that f throws.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

}  // namespace heed::test
