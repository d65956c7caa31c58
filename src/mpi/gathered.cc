// Forward with this rank's queries and all keys, gathered one key head at a time: the same tiles as on one machine.
#include "attention/check.h"
#include "attention/plan.h"
#include "mpi/key_block.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

/// Writes the keys and values that this rank's queries may see into k (B, Hkv, Lk, D) and v (B, Hkv, Lk, Dv).
void gather(const Call& call, const Tensor& k, const Tensor& v) {
  const auto place = [&](const std::vector<IndexRange>& pieces, const Tensor& from_k, const Tensor& from_v) {
    each_piece(pieces, pieces, [&](const IndexRange& piece, int64_t at, int64_t) {
      k.slice(2, piece.begin, piece.end).copy_from(from_k.slice(2, at, at + piece.size()));
      v.slice(2, piece.begin, piece.end).copy_from(from_v.slice(2, at, at + piece.size()));
    });
  };
  place(call.over.keys.of(call.rank()), call.k, call.v);
  for (int distance = 1; distance < call.size(); ++distance) {
    const int to = (call.rank() + distance) % call.size(), from = (call.rank() + call.size() - distance) % call.size();
    const KeyBlock out = block_for(call, to);
    const KeyBlock in(call, call.keys_for(call.rank(), from), call.k.dtype());
    call.ranks.exchange("mpi::attention", out.bytes(), out.empty() ? Communicator::kNobody : to, in.bytes(),
                        in.empty() ? Communicator::kNobody : from);
    place(in.pieces, in.k, in.v);
  }
}

/// This rank's queries, piece after piece, against all keys, into out and lse (where defined).
void compute(const Call& call, Implementation implementation, const Tensor& k, const Tensor& v, const Tensor& out,
             const Tensor& lse) {
  int64_t at = 0;
  for (const IndexRange& piece : call.over.queries.of(call.rank())) {
    for (const int64_t entry : call.entries()) {
      const IndexRange batch = entry < 0 ? IndexRange{0, call.whole.B} : IndexRange{entry, entry + 1};
      const auto part = [&](const Tensor& t) {
        return t.slice(0, batch.begin, batch.end).slice(2, at, at + piece.size());
      };
      AttentionOptions o = call.part(entry, piece.begin, {0, call.whole.Lk});
      o.implementation = implementation;
      if (call.mask.defined()) o.mask = heads_slice(call.mask, 0, batch);
      if (call.mask.defined() && call.mask_rows) o.mask = o.mask.slice(2, at, at + piece.size());
      AttentionResult into;
      into.out = part(out);
      if (lse.defined()) into.lse = Tensor::empty({batch.size(), call.whole.Hq, piece.size()}, call.compute());
      heed::attention(part(call.q), k.slice(0, batch.begin, batch.end), v.slice(0, batch.begin, batch.end), into, o);
      if (lse.defined()) part(lse).copy_from(into.lse);
    }
    at += piece.size();
  }
}

}  // namespace

AttentionResult gathered_forward(const Call& call) {
  const Sizes& s = call.whole;
  AttentionResult own;
  own.out = Tensor::empty({s.B, s.Hq, call.q.size(2), s.Dv}, call.q.dtype());
  if (call.options.want_lse) own.lse = Tensor::empty({s.B, s.Hq, call.q.size(2)}, call.compute());
  const Implementation implementation = choose(s, call.options);
  // Keys that no query of this rank may see are not sent, and not read.
  const Tensor k = Tensor::zeros({s.B, 1, s.Lk, s.D}, call.k.dtype());
  const Tensor v = Tensor::zeros({s.B, 1, s.Lk, s.Dv}, call.v.dtype());
  for (int64_t head = 0; head < s.Hkv; ++head) {
    const Call some = call.of_heads({head, head + 1});
    gather(some, k, v);
    const IndexRange heads{head * call.group(), (head + 1) * call.group()};
    compute(some, implementation, k, v, own.out.slice(1, heads.begin, heads.end),
            own.lse.defined() ? own.lse.slice(1, heads.begin, heads.end) : Tensor());
  }
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
