// The public call: check, plan, run.
#include <cstdio>
#include <cstdlib>

#include "attention/check.h"
#include "attention/fused.h"
#include "attention/plan.h"
#include "attention/reference.h"

namespace heed::inline v0 {
namespace {

template <class T>
Rows<T> rows(const Tensor& t) {
  return {t.data<std::remove_const_t<T>>(), t.stride(0), t.stride(1), t.stride(2)};
}

template <class T>
Problem<T> problem(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options) {
  Problem<T> p;
  static_cast<Sizes&>(p) = sizes;
  p.q = rows<const T>(q);
  p.k = rows<const T>(k);
  p.v = rows<const T>(v);
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(sizes.D)));
  p.causal = options.causal;
  if (options.mask.defined()) {
    const Tensor mask = options.mask.expand({sizes.B, sizes.Hq, sizes.Lq, sizes.Lk});
    p.mask = {true,          mask.dtype() == DType::boolean, mask.raw(), mask.stride(0), mask.stride(1), mask.stride(2),
              mask.stride(3)};
  }
  if (const Tensor& lengths = options.key_lengths; lengths.defined() && lengths.numel() > 0) {
    p.key_lengths = lengths.raw();
    p.key_lengths_stride = lengths.stride(0);
    p.key_lengths_wide = lengths.dtype() == DType::i64;
  }
  p.dropout = options.dropout;
  p.seed = options.seed;
  p.stream = options.stream;
  return p;
}

Executor& executor_of(const AttentionOptions& options) {
  return options.executor ? *options.executor : default_executor();
}

void print_explanation(const Sizes& sizes, DType dtype, const AttentionOptions& options) {
  static const bool wanted = [] {
    const char* const value = std::getenv("HEED_EXPLAIN");
    return value && std::string(value) != "" && std::string(value) != "0";
  }();
  if (wanted) std::fprintf(stderr, "%s\n", explain(sizes, dtype, options).c_str());
}

template <class T>
void forward(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
             const AttentionOptions& options) {
  Forward<T> p;
  static_cast<Problem<T>&>(p) = problem<T>(sizes, q, k, v, options);
  p.out = rows<T>(into.out);
  if (into.lse.defined()) p.lse = into.lse.data<T>();
  if (into.weights.defined()) p.weights = into.weights.data<T>();
  if (choose(options) == Implementation::fused) return fused_forward(p, executor_of(options));
  reference_forward(p, executor_of(options));
}

template <class T>
void backward(const Sizes& sizes, const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
              const AttentionResult& saved, const AttentionGradients& into, const AttentionOptions& options) {
  Backward<T> p;
  static_cast<Problem<T>&>(p) = problem<T>(sizes, q, k, v, options);
  p.grad_out = rows<const T>(grad_out);
  p.out = rows<const T>(saved.out);
  p.lse = saved.lse.data<T>();
  p.dq = rows<T>(into.q);
  p.dk = rows<T>(into.k);
  p.dv = rows<T>(into.v);
  if (into.mask.defined()) {
    p.dmask = into.mask.data<T>();
    for (int d = 1; d <= into.mask.rank(); ++d) p.mask_sizes[4 - d] = into.mask.size(-d);
  }
  if (choose(options) == Implementation::fused) return fused_backward(p, executor_of(options));
  reference_backward(p, executor_of(options));
}

void run(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
         const AttentionOptions& options) {
  print_explanation(sizes, q.dtype(), options);
  q.dtype() == DType::f32 ? forward<float>(sizes, q, k, v, into, options)
                          : forward<double>(sizes, q, k, v, into, options);
}

void run_backward(const Sizes& sizes, const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionResult& saved, const AttentionGradients& into, const AttentionOptions& options) {
  q.dtype() == DType::f32 ? backward<float>(sizes, grad_out, q, k, v, saved, into, options)
                          : backward<double>(sizes, grad_out, q, k, v, saved, into, options);
}

}  // namespace

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Sizes s = check_inputs("attention", q, k, v, options);
  AttentionResult result;
  result.out = Tensor::empty({s.B, s.Hq, s.Lq, s.Dv}, q.dtype());
  if (options.want_lse) result.lse = Tensor::empty({s.B, s.Hq, s.Lq}, q.dtype());
  if (options.want_weights) result.weights = Tensor::empty({s.B, s.Hq, s.Lq, s.Lk}, q.dtype());
  run(s, q, k, v, result, options);
  return result;
}

void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
               const AttentionOptions& options) {
  const Sizes s = check_inputs("attention", q, k, v, options);
  check_outputs(s, q, k, v, into, options);
  run(s, q, k, v, into, options);
}

AttentionGradients attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& forward, const AttentionOptions& options, bool want_mask) {
  const Sizes s = check_inputs("attention_backward", q, k, v, options);
  check_saved(s, q, grad_out, forward);
  if (want_mask) check_mask_gradient(options);
  AttentionGradients gradients;
  gradients.q = Tensor::empty(q.shape(), q.dtype());
  gradients.k = Tensor::empty(k.shape(), q.dtype());
  gradients.v = Tensor::empty(v.shape(), q.dtype());
  if (want_mask) gradients.mask = Tensor::empty(options.mask.shape(), q.dtype());
  run_backward(s, grad_out, q, k, v, forward, gradients, options);
  return gradients;
}

void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& into,
                        const AttentionOptions& options) {
  const Sizes s = check_inputs("attention_backward", q, k, v, options);
  check_saved(s, q, grad_out, forward);
  check_gradients(grad_out, q, k, v, forward, into, options);
  run_backward(s, grad_out, q, k, v, forward, into, options);
}

std::string explain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return explain(check_inputs("explain", q, k, v, options), q.dtype(), options);
}

}  // namespace heed::inline v0
