// The public call: check, plan, run.
#include <cstdio>
#include <cstdlib>

#include "attention/check.h"
#include "attention/fused.h"
#include "attention/plan.h"
#include "attention/reference.h"

namespace heed::inline v0 {
namespace {

Operand operand(const Tensor& t, bool ragged) {
  const Storage storage = t.dtype() == DType::f16    ? Storage::f16
                          : t.dtype() == DType::bf16 ? Storage::bf16
                                                     : Storage::same;
  if (ragged) return {t.raw(), 0, t.stride(1), t.stride(0), storage};
  return {t.raw(), t.stride(0), t.stride(1), t.stride(2), storage};
}

Indices indices(const Tensor& t) {
  if (!t.defined()) return {};
  return {t.raw(), t.stride(0), t.dtype() == DType::i64};
}

/// `t` in `dtype`. What is broadcast along a dimension stays so: a copy has as many elements as `t` has of its own.
Tensor converted(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor own = t;
  for (int d = 0; d < t.rank(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) own = own.slice(d, 0, 1);
  return own.to(dtype).expand(t.shape());
}

MaskView mask_view(const Sizes& s, const Tensor& mask) {
  if (!mask.defined()) return {};
  const int64_t last = mask.rank() > 0 ? mask.size(-1) : 1, keys = last == 1 ? s.Lk : last;
  const Tensor full = mask.expand({s.B, s.Hq, s.Lq, keys});
  return {.present = true,
          .boolean = mask.dtype() == DType::boolean,
          .data = mask.raw(),
          .batch = full.stride(0),
          .head = full.stride(1),
          .query = full.stride(2),
          .key = full.stride(3),
          .keys = keys};
}

/// Windows beyond any position are unlimited.
Window window(const Window& w) {
  const auto limit = [](int64_t side) { return side > 2 * kMostOffset ? -1 : side; };
  return {limit(w.left), limit(w.right)};
}

/// A public call as it goes to a kernel that computes in T.
template <class T>
class Call {
 public:
  Call(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options)
      : sizes_(sizes), q_(q), k_(k), v_(v), options_(options), mask_(options.mask) {
    if (mask_.defined() && mask_.dtype() != DType::boolean) mask_ = converted(mask_, dtype_of<T>());
  }

  void forward(const AttentionResult& into, std::vector<TopRow<T>>* top) const {
    Tensor lse = into.lse;
    const bool inspects_weights = into.weights.defined() || top;
    if (!lse.defined() && (inspects_weights || stage() == ScoreStage::weights))
      lse = Tensor::empty(lse_shape(sizes_), dtype_of<T>());
    Forward<T> p;
    fill(p);
    p.out = operand(into.out, sizes_.ragged);
    p.lse = lse.defined() ? lse.data<T>() : nullptr;
    p.lse_low = into.lse_low.defined() ? into.lse_low.data<T>() : nullptr;
    const Implementation implementation = choose(sizes_, options_);
    switch (implementation) {
      case Implementation::decode:
        decode_forward(p, executor());
        break;
      case Implementation::reference:
        reference_forward(p, executor());
        break;
      default:
        fused_forward(p, executor());
    }
    // Backward's sums have another order than these: where scores are large, lse must be that of backward's.
    const bool other_sums = implementation == Implementation::decode ||
                            (implementation == Implementation::fused && sizes_.Lq <= kFewQueries);
    if (p.lse_low && other_sums && has_large_lse(into.lse)) fused_large_lse(p, p.lse, p.lse_low, executor());
    if (inspects_weights)
      inspect_part(implementation, ScoreStage::weights, options_.selection, p.lse, into.weights, top);
    if (into.scores.defined()) inspect_part(implementation, stage(), {}, p.lse, into.scores, nullptr);
  }

  void backward(const Tensor& grad_out, const AttentionResult& saved, const AttentionGradients& into,
                const BackwardOptions& wanted) const {
    Backward<T> p;
    fill(p);
    p.grad_out = operand(grad_out, sizes_.ragged);
    p.out = operand(saved.out, sizes_.ragged);
    const bool fused = choose_backward(sizes_, options_) == Implementation::fused;
    Tensor lse = saved.lse, lse_low = saved.lse_low;
    if (!lse_low.defined() && options_.part.first_key == 0 && has_large_lse(lse)) {
      lse = lse.clone(), lse_low = Tensor::zeros(lse.shape(), lse.dtype());
      fused ? fused_large_lse(p, lse.data<T>(), lse_low.data<T>(), executor())
            : reference_large_lse(p, lse.data<T>(), lse_low.data<T>(), executor());
    }
    p.lse = lse.data<T>();
    if (lse_low.defined()) p.lse_low = lse_low.data<T>();
    const Tensor grad_lse = wanted.grad_lse.defined() ? wanted.grad_lse.contiguous() : Tensor();
    if (grad_lse.defined()) p.grad_lse = grad_lse.data<T>();
    p.dq = operand(into.q, sizes_.ragged);
    p.dk = operand(into.k, sizes_.ragged);
    p.dv = operand(into.v, sizes_.ragged);
    if (into.mask.defined()) {
      p.dmask = into.mask.data<T>();
      for (int d = 1; d <= into.mask.rank(); ++d) p.mask_sizes[4 - d] = into.mask.size(-d);
    }
    if (into.sinks.defined()) p.dsinks = into.sinks.data<T>();
    if (wanted.visitor) p.visitor = &wanted.visitor;
    fused ? fused_backward(p, executor()) : reference_backward(p, executor());
  }

 private:
  static bool has_large_lse(const Tensor& lse) {
    return std::any_of(lse.data<T>(), lse.data<T>() + lse.numel(), is_large<T>);
  }
  Executor& executor() const { return options_.executor ? *options_.executor : default_executor(); }
  ScoreStage stage() const { return options_.want_scores.value_or(ScoreStage::scaled); }

  void fill(Problem<T>& p) const {
    static_cast<Sizes&>(p) = sizes_;
    p.q = operand(q_, sizes_.ragged);
    p.k = operand(k_, sizes_.ragged);
    p.v = operand(v_, sizes_.ragged);
    p.scale = options_.scale.value_or(1 / std::sqrt(static_cast<double>(sizes_.D)));
    p.causal = options_.causal;
    p.offset = options_.offset;
    p.window = window(options_.window);
    p.softcap = options_.softcap;
    if (options_.score_mod) p.score_mod = &options_.score_mod;
    p.mask = mask_view(sizes_, mask_);
    if (options_.block_mask) p.block_mask = &options_.block_mask;
    if (options_.alibi.defined()) p.alibi = options_.alibi.data<T>(), p.alibi_stride = options_.alibi.stride(0);
    if (options_.sinks.defined()) p.sinks = options_.sinks.data<T>(), p.sinks_stride = options_.sinks.stride(0);
    p.key_lengths = indices(options_.key_lengths);
    p.q_offsets = indices(options_.q_offsets);
    p.k_offsets = indices(options_.k_offsets);
    p.dropout = options_.dropout;
    p.seed = options_.seed;
    p.stream = options_.stream;
    p.part = options_.part;
    p.workspace = options_.workspace;
  }

  /// Into `dense`, or into `top`.
  void inspect_part(Implementation implementation, ScoreStage stage, const WeightsSelection& selection, const T* lse,
                    const Tensor& dense, std::vector<TopRow<T>>* top) const {
    Inspection<T> p;
    fill(p);
    p.lse = lse;
    p.stage = stage;
    p.heads = indices(selection.heads);
    p.rows = indices(selection.rows);
    const Dims shape = weights_shape(sizes_, selection);
    p.N = shape[shape.rank() - 3];
    p.R = shape[shape.rank() - 2];
    p.width = sizes_.Lk;
    if (p.B == 0 || p.N == 0 || p.R == 0) return;
    if (dense.defined()) p.dense = dense.data<T>();
    if (top) p.top_p = selection.top_p;
    implementation == Implementation::reference ? reference_inspect(p, executor(), top) : inspect(p, executor(), top);
  }

  const Sizes& sizes_;
  const Tensor &q_, &k_, &v_;
  const AttentionOptions& options_;
  Tensor mask_;  // options.mask in T, or boolean
};

/// Rows one behind another.
template <class T>
TopWeights collect(const std::vector<TopRow<T>>& rows) {
  TopWeights top;
  top.offsets = Tensor::zeros({static_cast<int64_t>(rows.size()) + 1}, DType::i64);
  auto* const offsets = top.offsets.data<int64_t>();
  for (size_t r = 0; r < rows.size(); ++r) offsets[r + 1] = offsets[r] + static_cast<int64_t>(rows[r].keys.size());
  const Dims total{offsets[rows.size()]};
  top.keys = Tensor::empty(total, DType::i64);
  top.weights = Tensor::empty(total, dtype_of<T>());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].keys.begin(), rows[r].keys.end(), top.keys.data<int64_t>() + offsets[r]);
    std::copy(rows[r].weights.begin(), rows[r].weights.end(), top.weights.data<T>() + offsets[r]);
  }
  return top;
}

/// f(T{}) with the compute type.
template <class F>
void with_compute_type(const Tensor& q, F&& f) {
  q.dtype() == DType::f64 ? f(double{}) : f(float{});
}

/// Whether HEED_EXPLAIN asks for a line at each call.
bool explains() {
  static const bool wanted = [] {
    const char* const value = std::getenv("HEED_EXPLAIN");
    return value && std::string(value) != "" && std::string(value) != "0";
  }();
  return wanted;
}

void print(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

constexpr auto kForward = "attention";
constexpr auto kBackward = "attention_backward";

void run_backward(const Sizes& sizes, const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionResult& saved, const AttentionGradients& into, const AttentionOptions& options,
                  const BackwardOptions& wanted) {
  if (explains()) print(explain_backward(sizes, {q.dtype(), k.dtype()}, options));
  with_compute_type(q, [&](auto compute) {
    Call<decltype(compute)>(sizes, q, k, v, options).backward(grad_out, saved, into, wanted);
  });
}

}  // namespace

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Sizes s = check_inputs(kForward, q, k, v, options);
  if (explains()) print(explain(s, {q.dtype(), k.dtype()}, options));
  const DType dtype = compute_dtype(q);
  const Dims weights = weights_shape(s, options.selection);
  const bool wants_top = options.want_weights && options.selection.top_p < 1;
  AttentionResult result;
  result.out = Tensor::empty(out_shape(s), q.dtype());
  if (options.want_lse) result.lse = Tensor::empty(lse_shape(s), dtype);
  if (options.want_lse) result.lse_low = Tensor::empty(lse_shape(s), dtype);
  if (options.want_weights && !wants_top) result.weights = Tensor::empty(weights, dtype);
  if (options.want_scores) result.scores = Tensor::empty(scores_shape(s), dtype);
  with_compute_type(q, [&](auto compute) {
    using T = decltype(compute);
    std::vector<TopRow<T>> rows;
    if (wants_top) rows.resize(static_cast<size_t>(numel(Dims(weights.begin(), weights.end() - 1))));
    Call<T>(s, q, k, v, options).forward(result, wants_top ? &rows : nullptr);
    if (wants_top) result.top = collect(rows);
  });
  return result;
}

void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
               const AttentionOptions& options) {
  const Sizes s = check_inputs(kForward, q, k, v, options);
  check_outputs(s, q, k, v, into, options);
  if (explains()) print(explain(s, {q.dtype(), k.dtype()}, options));
  with_compute_type(q, [&](auto compute) { Call<decltype(compute)>(s, q, k, v, options).forward(into, nullptr); });
}

AttentionGradients attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& forward, const AttentionOptions& options,
                                      const BackwardOptions& backward) {
  const Sizes s = check_inputs(kBackward, q, k, v, options);
  check_saved(s, q, grad_out, forward, options, backward);
  AttentionGradients gradients;
  gradients.q = Tensor::empty(q.shape(), q.dtype());
  gradients.k = Tensor::empty(k.shape(), k.dtype());
  gradients.v = Tensor::empty(v.shape(), v.dtype());
  if (backward.want_mask) gradients.mask = Tensor::empty(options.mask.shape(), compute_dtype(q));
  if (backward.want_sinks) gradients.sinks = Tensor::empty(options.sinks.shape(), compute_dtype(q));
  run_backward(s, grad_out, q, k, v, forward, gradients, options, backward);
  return gradients;
}

void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& into, const AttentionOptions& options,
                        const BackwardOptions& backward) {
  const Sizes s = check_inputs(kBackward, q, k, v, options);
  check_saved(s, q, grad_out, forward, options, backward);
  check_gradients(s, grad_out, q, k, v, forward, into, options, backward);
  run_backward(s, grad_out, q, k, v, forward, into, options, backward);
}

std::string explain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return explain(check_inputs("explain", q, k, v, options), {q.dtype(), k.dtype()}, options);
}

}  // namespace heed::inline v0
