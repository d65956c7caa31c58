// Forward with this rank's queries and all keys, gathered one key head at a time: the same tiles as on one machine.
#include "attention/check.h"
#include "attention/plan.h"
#include "mpi/key_block.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

constexpr auto kOperation = "mpi::attention";

/// Writes the keys and values of key head `head` that this rank's queries may see into k (B, 1, Lk, D), v (B, 1, Lk,
/// Dv).
void gather(const Call& call, int64_t head, const Tensor& k, const Tensor& v) {
  const auto place = [&](const std::vector<IndexRange>& pieces, const Tensor& from_k, const Tensor& from_v) {
    each_piece(pieces, pieces, [&](const IndexRange& piece, int64_t at, int64_t) {
      k.slice(2, piece.begin, piece.end).copy_from(from_k.slice(2, at, at + piece.size()));
      v.slice(2, piece.begin, piece.end).copy_from(from_v.slice(2, at, at + piece.size()));
    });
  };
  const IndexRange heads{head, head + 1};
  place(call.over.keys.of(call.rank()), call.k.slice(1, head, head + 1), call.v.slice(1, head, head + 1));
  for (int distance = 1; distance < call.size(); ++distance) {
    const int to = (call.rank() + distance) % call.size(), from = (call.rank() + call.size() - distance) % call.size();
    const KeyBlock out = block_for(call, to, heads);
    const KeyBlock in(call, call.keys_for(call.rank(), from), 1, call.k.dtype());
    call.ranks.exchange(kOperation, out.bytes(), out.empty() ? Communicator::kNobody : to, in.bytes(),
                        in.empty() ? Communicator::kNobody : from);
    place(in.pieces, in.k, in.v);
  }
}

}  // namespace

AttentionResult gathered_forward(const Call& call) {
  const auto [B, Hq, Lk] = std::tuple(call.whole.B, call.whole.Hq, call.whole.Lk);
  AttentionResult own;
  own.out = Tensor::empty({B, Hq, call.q.size(2), call.whole.Dv}, call.q.dtype());
  if (call.options.want_lse) own.lse = Tensor::empty({B, Hq, call.q.size(2)}, call.compute());
  const Implementation implementation = choose(call.whole, call.options);
  // Keys that no query of this rank may see are not sent, and not read.
  const Tensor k = Tensor::zeros({B, 1, Lk, call.whole.D}, call.k.dtype());
  const Tensor v = Tensor::zeros({B, 1, Lk, call.whole.Dv}, call.v.dtype());
  for (int64_t head = 0; head < call.whole.Hkv; ++head) {
    gather(call, head, k, v);
    const IndexRange heads{head * call.group(), (head + 1) * call.group()};
    int64_t at = 0;
    for (const IndexRange& piece : call.over.queries.of(call.rank())) {
      for (const int64_t entry : call.entries()) {
        const IndexRange batch = entry < 0 ? IndexRange{0, B} : IndexRange{entry, entry + 1};
        const auto part = [&](const Tensor& t) {
          return t.slice(0, batch.begin, batch.end).slice(1, heads.begin, heads.end).slice(2, at, at + piece.size());
        };
        AttentionOptions o = call.part(entry, piece.begin, {0, Lk});
        o.part.first_head = heads.begin;
        o.implementation = implementation;
        for (Tensor* t : {&o.alibi, &o.sinks})
          if (t->defined()) *t = t->slice(0, heads.begin, heads.end);
        if (call.mask.defined()) {
          o.mask = heads_of(heads_of(call.mask, 0, batch), 1, heads);
          if (call.mask_rows) o.mask = o.mask.slice(2, at, at + piece.size());
        }
        AttentionResult into;
        into.out = part(own.out);
        if (own.lse.defined()) into.lse = Tensor::empty({batch.size(), heads.size(), piece.size()}, call.compute());
        heed::attention(part(call.q), k.slice(0, batch.begin, batch.end), v.slice(0, batch.begin, batch.end), into, o);
        if (own.lse.defined()) part(own.lse).copy_from(into.lse);
      }
      at += piece.size();
    }
  }
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
