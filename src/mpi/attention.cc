// The public calls: check, choose how keys and queries meet, bring results into the caller's shapes.
#include "heed/attention_over_ranks.h"

#include <algorithm>

#include "attention/check.h"
#include "attention/plan.h"
#include "mpi/call.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

/// Whether queries with all keys are computed by the same instructions in these pieces as on one machine.
bool may_gather(const Call& call) {
  if (call.whole.ragged || choose(call.whole, call.options) == Implementation::decode) return false;
  const std::vector<Split::Piece>& pieces = call.over.queries.pieces();
  return std::all_of(pieces.begin(), pieces.end(), [&](const Split::Piece& piece) {
    if (piece.size() == 0 || piece.size() == call.whole.Lq) return true;
    return piece.size() >= kTile && (!call.options.block_mask || piece.begin % kTile == 0);
  });
}

/// Key heads that are computed at a time where they are dealt out.
int64_t dealt_together(const Call& call) {
  return call.over.meeting == Meeting::heads ? std::max<int64_t>(1, call.whole.Hkv) : call.size();
}

/// Of this rank's rows.
Sizes own_sizes(const Call& call) {
  Sizes own = call.whole;
  own.Lq = call.q.size(2);
  if (own.ragged) own.Tq = own.Lq;
  return own;
}

void check_backward(const Call& call, const Tensor& q, const Tensor& grad_out, const AttentionResult& forward,
                    const AttentionOptions& options, const BackwardOptions& wanted) {
  check_saved(own_sizes(call), q, grad_out, forward, options, wanted);
  check_lse_is_exact("mpi::attention_backward", "forward", forward);  // no rank has all scores of a row
  if (wanted.want_mask && call.over.meeting != Meeting::ring && call.mask.size(1) == 1 && call.whole.Hkv > 1)
    throw ShapeError(
        "mpi::attention_backward: the gradient of a mask " + to_string(options.mask.shape()) +
        " sums over heads that several ranks compute; pass one matrix for each head, or use Meeting::ring");
}

}  // namespace

AttentionResult attention(Communicator& ranks, const Tensor& q, const Tensor& k, const Tensor& v, const OverRanks& over,
                          const AttentionOptions& options) {
  const Call call("mpi::attention", ranks, q, k, v, over, options);
  AttentionResult own = over.meeting == Meeting::ring ? ring_forward(call)
                        : over.meeting == Meeting::exact && may_gather(call)
                            ? gathered_forward(call)
                            : dealt_forward(call, dealt_together(call));
  own.out = as_rows(own.out, call.whole.ragged);
  for (Tensor* t : {&own.lse, &own.lse_low})
    if (call.whole.ragged && t->defined()) *t = t->select(0, 0);
  return own;
}

AttentionGradients attention_backward(Communicator& ranks, const Tensor& grad_out, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& forward, const OverRanks& over,
                                      const AttentionOptions& options, const BackwardOptions& backward) {
  const Call call("mpi::attention_backward", ranks, q, k, v, over, options);
  check_backward(call, q, grad_out, forward, options, backward);
  const bool ragged = call.whole.ragged;
  const Tensor grad = as_heads(grad_out, ragged);
  AttentionResult saved = forward;
  saved.out = as_heads(forward.out, ragged);
  if (!saved.lse_low.defined()) saved.lse_low = Tensor::zeros(forward.lse.shape(), forward.lse.dtype());
  AttentionGradients own = over.meeting == Meeting::ring
                               ? ring_backward(call, grad, saved, backward)
                               : dealt_backward(call, grad, saved, backward, dealt_together(call));
  for (Tensor* t : {&own.q, &own.k, &own.v}) *t = as_rows(*t, ragged).contiguous();
  if (own.mask.defined()) own.mask = own.mask.reshape(options.mask.shape());
  return own;
}

AttentionOperator attention_operator(Communicator& ranks, const Split& rows, Meeting meeting) {
  const OverRanks over{rows, rows, meeting};
  return {[&ranks, over](const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
            return attention(ranks, q, k, v, over, options);
          },
          [&ranks, over](const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionResult& forward, const AttentionOptions& options) {
            return attention_backward(ranks, grad_out, q, k, v, forward, over, options);
          }};
}

}  // namespace mpi
}  // namespace heed::inline v0
