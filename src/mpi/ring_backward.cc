// The gradients of this rank's queries with the keys of each rank, added; those of keys go back to their rank.
#include <cmath>

#include "mpi/ring.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

constexpr auto kOperation = "mpi::attention_backward";

template <class T>
void add_rows(const Tensor& to, const Tensor& from) {
  const Dims n = to.shape();
  for (int64_t b = 0; b < n[0]; ++b)
    for (int64_t h = 0; h < n[1]; ++h)
      for (int64_t i = 0; i < n[2]; ++i) {
        T* const row = to.data<T>() + b * to.stride(0) + h * to.stride(1) + i * to.stride(2);
        const T* const added = from.data<T>() + b * from.stride(0) + h * from.stride(1) + i * from.stride(2);
        for (int64_t d = 0; d < n[3]; ++d) row[d] += added[d];
      }
}

/// to += from, (., ., rows, width) with innermost stride 1, in the compute type.
void add(const Tensor& to, const Tensor& from) {
  to.dtype() == DType::f64 ? add_rows<double>(to, from) : add_rows<float>(to, from);
}

/// The sum over ranks, in their order, on every rank. t is in double.
void sum_over_ranks(Communicator& ranks, const Tensor& t) {
  const auto all = ranks.all_gather(as_bytes(t.span<double>()));
  t.fill(0);
  for (const auto& one : all)
    add_rows<double>(t.reshape({1, 1, 1, t.numel()}),
                     Tensor::borrow(const_cast<std::byte*>(one.data()), DType::f64, {1, 1, 1, t.numel()}));
}

/// (Hq) in double, of this rank's queries: a sink takes its share exp(sink - lse) of every row and gives no value for
/// it. No pair of pieces knows whether a row sees anything.
Tensor sink_gradients(const Call& call, const Tensor& grad_out, const AttentionResult& forward,
                      const Tensor& grad_lse) {
  const Tensor sinks = call.options.sinks.to(DType::f64).contiguous(),
               sums = Tensor::zeros({call.whole.Hq}, DType::f64);
  for (int64_t b = 0; b < call.whole.B; ++b)
    for (int64_t h = 0; h < call.whole.Hq; ++h) {
      const auto of_head = [&](const Tensor& t) { return t.select(0, b).select(0, h).to(DType::f64); };
      const Tensor grad = of_head(grad_out), o = of_head(forward.out), lse = of_head(forward.lse),
                   lse_low = of_head(forward.lse_low);
      const Tensor dlse = grad_lse.defined() ? of_head(grad_lse) : Tensor();
      for (int64_t i = 0; i < o.size(0); ++i) {
        if (lse.at<double>(i) == -INFINITY) continue;
        double delta = dlse.defined() ? -dlse.at<double>(i) : 0;
        for (int64_t d = 0; d < o.size(1); ++d) {
          const double x = o.at<double>(i, d);
          if (x != 0) delta += x * grad.at<double>(i, d);  // 0 of a row that sees nothing: NaN goes nowhere
        }
        sums.at<double>(h) -= std::exp(sinks.at<double>(h) - lse.at<double>(i) - lse_low.at<double>(i)) * delta;
      }
    }
  return sums;
}

/// What backward has of one key head, and of the query heads that read it; (B, heads, own rows, width) or as the mask.
struct HeadOfBackward {
  Tensor grad_out, out, lse, lse_low, grad_lse;
  Tensor dq, dk, dv, dmask;  // dmask in double, where wanted
};

/// Adds the gradients of a pair, those of keys to to_k and to_v.
void add_gradients(const Call& call, Pair& pair, const HeadOfBackward& head, const Tensor& q, const Tensor& k,
                   const Tensor& v, const BackwardOptions& wanted, const Tensor& to_k, const Tensor& to_v) {
  AttentionResult forward;
  forward.out = pair.of_queries(head.out);
  forward.lse = pair.of_queries(head.lse).contiguous();
  forward.lse_low = pair.of_queries(head.lse_low).contiguous();
  BackwardOptions o = wanted;
  o.want_sinks = false;
  if (head.grad_lse.defined()) o.grad_lse = pair.of_queries(head.grad_lse).contiguous();
  const AttentionGradients g = heed::attention_backward(pair.of_queries(head.grad_out), pair.of_queries(q),
                                                        pair.of_keys(k), pair.of_keys(v), forward, pair.options, o);
  add(pair.of_queries(head.dq), g.q);
  add(pair.of_keys(to_k), g.k);
  add(pair.of_keys(to_v), g.v);
  if (head.dmask.defined()) add(pair.of_mask(head.dmask, call), g.mask.to(DType::f64));
}

void backward_of_head(const Call& call, const HeadOfBackward& head, const BackwardOptions& wanted) {
  const DType type = call.compute();
  const Tensor q = call.q.to(type);
  const std::vector<IndexRange> own_keys = call.over.keys.of(call.rank());
  around_the_ring(
      call, kOperation, [&](const Tensor& k, const Tensor& v, const std::vector<IndexRange>& pieces, int from, int to) {
        const Tensor wide_k = k.to(type), wide_v = v.to(type);
        const auto meet = [&](bool own, const Tensor& to_k, const Tensor& to_v) {
          each_pair(call, pieces, own,
                    [&](Pair& pair) { add_gradients(call, pair, head, q, wide_k, wide_v, wanted, to_k, to_v); });
        };
        if (from == call.rank()) return meet(true, head.dk, head.dv);
        // What these keys get from here goes back to their rank; what this rank's get comes from where they are.
        const KeyBlock back(call, pieces, type), in(call, call.keys_for(to, call.rank()), type);
        back.memory.fill(0);
        meet(false, back.k, back.v);
        call.ranks.exchange(kOperation, back.bytes(), back.empty() ? Communicator::kNobody : from, in.bytes(),
                            in.empty() ? Communicator::kNobody : to);
        each_piece(in.pieces, own_keys, [&](const IndexRange& piece, int64_t at, int64_t among) {
          add(head.dk.slice(2, among, among + piece.size()), in.k.slice(2, at, at + piece.size()));
          add(head.dv.slice(2, among, among + piece.size()), in.v.slice(2, at, at + piece.size()));
        });
      });
}

}  // namespace

AttentionGradients ring_backward(const Call& call, const Tensor& grad_out, const AttentionResult& forward,
                                 const BackwardOptions& wanted) {
  const DType type = call.compute();
  AttentionGradients own;
  own.q = Tensor::empty(call.q.shape(), call.q.dtype());
  own.k = Tensor::empty(call.k.shape(), call.k.dtype());
  own.v = Tensor::empty(call.v.shape(), call.v.dtype());
  Tensor dmask;
  if (wanted.want_mask) dmask = Tensor::zeros(call.mask.shape(), DType::f64);
  for (int64_t h = 0; h < call.whole.Hkv; ++h) {
    const IndexRange heads{h * call.group(), (h + 1) * call.group()};
    const auto some = [&](const Tensor& t) { return t.slice(1, heads.begin, heads.end); };
    const Call of_head = call.of_heads({h, h + 1});
    HeadOfBackward head;
    head.grad_out = some(grad_out).to(type), head.out = some(forward.out).to(type);
    head.lse = some(forward.lse), head.lse_low = some(forward.lse_low);
    if (wanted.grad_lse.defined()) head.grad_lse = some(wanted.grad_lse);
    if (dmask.defined()) head.dmask = heads_slice(dmask, 1, heads);
    head.dq = Tensor::zeros(of_head.q.shape(), type);
    head.dk = Tensor::zeros(of_head.k.shape(), type);
    head.dv = Tensor::zeros(of_head.v.shape(), type);
    backward_of_head(of_head, head, wanted);
    some(own.q).copy_from(head.dq);
    own.k.slice(1, h, h + 1).copy_from(head.dk);
    own.v.slice(1, h, h + 1).copy_from(head.dv);
  }
  if (wanted.want_sinks) {
    const Tensor dsinks = sink_gradients(call, grad_out, forward, wanted.grad_lse);
    sum_over_ranks(call.ranks, dsinks);
    own.sinks = dsinks.to(type);
  }
  if (dmask.defined()) {
    if (!call.mask_rows) sum_over_ranks(call.ranks, dmask);
    own.mask = dmask.to(type);
  }
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
