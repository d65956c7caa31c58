// The operator for Python: heed/_attention.py has the signatures and the documentation.
#include "define.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "options.h"

namespace heed::python {
namespace {

using H = nb::handle;
using Tuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;  // of arrays

/// Where a call with `out` puts what it returns beside it. Sizes that do not fit are left to the check of the call.
AttentionResult room(const Tensor& out, const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  AttentionResult into;
  into.out = out;
  const bool ragged = options.q_offsets.defined() || options.k_offsets.defined();
  const int rank = ragged ? 3 : 4;
  if (q.rank() != rank || k.rank() != rank) return into;
  int64_t keys = k.size(-2);
  if (ragged) {
    keys = 0;
    const Tensor offsets = options.k_offsets.defined() ? options.k_offsets.to(DType::i64).reshape({-1}) : Tensor();
    const auto place = [&](int64_t b) { return std::clamp<int64_t>(offsets.at<int64_t>(b), 0, k.size(0)); };
    for (int64_t b = 1; offsets.defined() && b < offsets.size(0); ++b) keys = std::max(keys, place(b) - place(b - 1));
  }
  Dims rows = ragged ? Dims{q.size(1), q.size(0)} : Dims{q.size(0), q.size(1), q.size(2)};
  const DType compute = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (options.want_lse) into.lse = Tensor::empty(rows, compute), into.lse_low = Tensor::empty(rows, compute);
  rows.push_back(keys);
  if (options.want_scores) into.scores = Tensor::empty(rows, compute);
  if (options.want_weights) {
    const Tensor& heads = options.selection.heads;
    if (heads.defined()) rows[ragged ? 0 : 1] = heads.numel();
    if (options.selection.rows.defined() && !ragged) rows[2] = options.selection.rows.numel();
    into.weights = Tensor::empty(rows, compute);
  }
  return into;
}

/// What `wanted` asks for, with the options of `given`; its `out` is the given one where that is defined.
AttentionResult computed(const Tensor& q, const Tensor& k, const Tensor& v, const Options& given,
                         const AttentionOptions& wanted, const Tensor& out) {
  given.check("attention", q, k);
  const auto compute = [&] {
    const nb::gil_scoped_release others_may_run;
    if (!out.defined()) return attention(q, k, v, wanted);
    AttentionResult into = room(out, q, k, wanted);
    attention(q, k, v, into, wanted);
    return into;
  };
  AttentionResult result = compute();
  given.rethrow();
  return result;
}

/// Made once, since they are large beside a tiny call.
const Options& defaults_on(Executor* threads) {
  static const Options defaults;
  if (!threads) return defaults;
  static const Options on_torch(threads);  // there is one such executor
  return on_torch;
}

/// `out` alone, of options that nobody remembers.
nb::object run(H q_array, H k_array, H v_array, H out_array, H mask, H causal, H scale, H window, H softcap, H alibi,
               H sinks, H score_mod, H block_mask, H key_lengths, H offset, H q_offsets, H k_offsets, H dropout_p,
               H seed) {
  UnwatchedCall taking("attention: q", q_array);
  const Lent q("attention: q", q_array), k("attention: k", k_array), v("attention: v", v_array);
  const Tensor out = take_optional("attention: out", out_array, Access::write);
  Executor* const threads = threads_of(q_array);
  std::optional<Options> read;
  if (!are_defaults({mask, scale, window, alibi, sinks, score_mod, block_mask, key_lengths, q_offsets, k_offsets},
                    causal, {softcap, dropout_p}, {offset, seed}))
    read.emplace(mask, causal, scale, window, softcap, alibi, sinks, score_mod, block_mask, key_lengths, offset,
                 q_offsets, k_offsets, dropout_p, seed);
  taking.end();
  const AttentionResult result = read ? computed(q, k, v, *read, read->on(threads), out)
                                      : computed(q, k, v, defaults_on(threads), defaults_on(threads).get(), out);
  return out.defined() ? nb::borrow(out_array) : give(result.out, q_array);
}

/// (out, lse, lse_low, weights, scores, offsets, keys and weights of top), None for what was not asked for.
Tuple run_recorded(H q_array, H k_array, H v_array, const Options& given, H out_array, H return_lse, H return_scores,
                   H return_weights) {
  UnwatchedCall taking("attention: q", q_array);
  const Lent q("attention: q", q_array), k("attention: k", k_array), v("attention: v", v_array);
  const Tensor out = take_optional("attention: out", out_array, Access::write);
  taking.end();
  AttentionOptions options = given.on(threads_of(q_array));
  options.want_lse = flag("attention: return_lse", return_lse);
  want_weights(return_weights, q, options);
  options.want_scores = stage(return_scores);
  const AttentionResult r = computed(q, k, v, given, options, out);
  return nb::make_tuple(out.defined() ? nb::borrow(out_array) : give(r.out, q_array), give(r.lse, q_array),
                        give(r.lse_low, q_array), give(r.weights, q_array), give(r.scores, q_array),
                        give(r.top.offsets, q_array), give(r.top.keys, q_array), give(r.top.weights, q_array));
}

/// (q, k, v, mask, sinks, tables of score_mod): None where there is no additive mask and no sinks.
Tuple run_backward(nb::handle grad_array, nb::handle q_array, nb::handle k_array, nb::handle v_array,
                   nb::handle out_array, nb::handle lse_array, nb::handle lse_low_array, const Options& given,
                   nb::handle grad_lse_array, nb::handle mask_grad) {
  UnwatchedCall taking("attention_backward: grad", grad_array);
  const Tensor grad = take("attention_backward: grad", grad_array), q = take("attention_backward: q", q_array),
               k = take("attention_backward: k", k_array), v = take("attention_backward: v", v_array);
  AttentionResult forward;
  forward.out = take("attention_backward: r.out", out_array);
  forward.lse = take("attention_backward: r.lse", lse_array);
  forward.lse_low = take_optional("attention_backward: r.lse_low", lse_low_array);
  BackwardOptions wanted{.want_mask = flag("attention_backward: mask_grad", mask_grad) && given.has_additive_mask(),
                         .want_sinks = given.has_sinks(),
                         .grad_lse = take_optional("attention_backward: grad_lse", grad_lse_array)};
  taking.end();
  std::vector<Tensor> tables;
  if (const Mods* const mods = given.mods()) {
    mods->check_differentiable();
    if (mods->learns()) wanted.visitor = mods->visitor(tables);
  }
  given.check("attention_backward", q, k);
  AttentionGradients gradients;
  Executor* const threads = threads_of(q_array);
  {
    const nb::gil_scoped_release others_may_run;
    gradients = attention_backward(grad, q, k, v, forward, given.on(threads), wanted);
  }
  given.rethrow();
  nb::list learned;
  for (const Tensor& table : tables) learned.append(give(table.to(forward.lse.dtype()), q_array));
  return nb::make_tuple(give(gradients.q, q_array), give(gradients.k, k_array), give(gradients.v, v_array),
                        give(gradients.mask, q_array), give(gradients.sinks, q_array), nb::tuple(learned));
}

/// lse and lse_low as they are with another order of their two dimensions: (Hq, Tq) of ragged batches.
void turn_rows(AttentionResult& r) {
  for (Tensor* t : {&r.lse, &r.lse_low})
    if (t->defined()) *t = t->transpose(0, 1).contiguous();
}

/// (out, lse, lse_low). lse (Hq, Tq) of ragged batches, whose out is (Tq, Hq, Dv).
Tuple run_merge(nb::handle out_array, nb::handle lse_array, nb::handle low_array, nb::handle out2_array,
                nb::handle lse2_array, nb::handle low2_array) {
  AttentionResult a, b;
  a.out = take("merge: a.out", out_array), b.out = take("merge: b.out", out2_array);
  a.lse = take("merge: a.lse", lse_array), b.lse = take("merge: b.lse", lse2_array);
  a.lse_low = take_optional("merge: a.lse_low", low_array), b.lse_low = take_optional("merge: b.lse_low", low2_array);
  const auto has_tokens = [](const AttentionResult& r) {
    return r.out.rank() == 3 && r.lse.rank() == 2 && (!r.lse_low.defined() || r.lse_low.rank() == 2);
  };
  const bool ragged = has_tokens(a) && has_tokens(b);
  AttentionResult result;
  {
    const nb::gil_scoped_release others_may_run;
    if (ragged) turn_rows(a), turn_rows(b);
    result = merge(a, b);
    if (ragged) turn_rows(result);
  }
  return nb::make_tuple(give(result.out, out_array), give(result.lse, out_array), give(result.lse_low, out_array));
}

std::string run_explain(nb::handle q, nb::handle k, nb::handle v, const Options& given) {
  const Tensor query = take("explain: q", q), key = take("explain: k", k);
  given.check("explain", query, key);
  return explain(query, key, take("explain: v", v), given.get());
}

}  // namespace

void define_attention(nb::module_& m) {
  // None goes through to where it is refused by name.
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Options>(m, "Options", "What attention() takes beside q, k, v and what to return.")
      .def(nb::init<H, H, H, H, H, H, H, H, H, H, H, H, H, H, H>(), any("mask"), any("causal"), any("scale"),
           any("window"), any("softcap"), any("alibi"), any("sinks"), any("score_mod"), any("block_mask"),
           any("key_lengths"), any("offset"), any("q_offsets"), any("k_offsets"), any("dropout_p"), any("seed"));
  m.def("attention", &run, any("q"), any("k"), any("v"), any("out"), any("mask"), any("causal"), any("scale"),
        any("window"), any("softcap"), any("alibi"), any("sinks"), any("score_mod"), any("block_mask"),
        any("key_lengths"), any("offset"), any("q_offsets"), any("k_offsets"), any("dropout_p"), any("seed"));
  m.def("attention_recorded", &run_recorded, any("q"), any("k"), any("v"), nb::arg("options"), any("out"),
        any("return_lse"), any("return_scores"), any("return_weights"));
  m.def("attention_backward", &run_backward, any("grad"), any("q"), any("k"), any("v"), any("out"), any("lse"),
        any("lse_low"), nb::arg("options"), any("grad_lse"), any("mask_grad"));
  m.def("merge", &run_merge, any("out"), any("lse"), any("lse_low"), any("out2"), any("lse2"), any("lse_low2"));
  m.def("explain", &run_explain, any("q"), any("k"), any("v"), nb::arg("options"));
}

}  // namespace heed::python
