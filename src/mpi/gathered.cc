// Forward with this rank's queries and all keys, gathered one key head at a time: the same tiles as on one machine.
#include <memory>
#include <optional>

#include "attention/check.h"
#include "attention/plan.h"
#include "mpi/key_block.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

/// The keys and values of a call that this rank's queries may see, on their way from all ranks.
class Gathering {
 public:
  explicit Gathering(const Call& call) : call_(call) {
    const int rank = call.rank(), size = call.size();
    for (int distance = 1; distance < size; ++distance) {
      const int to = (rank + distance) % size, from = (rank + size - distance) % size;
      out_.push_back(block_for(call, to));
      in_.emplace_back(call, call.keys_for(rank, from), call.k.dtype());
      transfers_.push_back(call.ranks.start("mpi::attention", out_.back().bytes(),
                                            out_.back().empty() ? Communicator::kNobody : to, in_.back().bytes(),
                                            in_.back().empty() ? Communicator::kNobody : from));
    }
  }
  /// Waits for them, and writes them into k (B, Hkv, Lk, D) and v (B, Hkv, Lk, Dv).
  void finish(const Tensor& k, const Tensor& v) {
    const auto place = [&](const std::vector<IndexRange>& pieces, const Tensor& from_k, const Tensor& from_v) {
      each_piece(pieces, pieces, [&](const IndexRange& piece, int64_t at, int64_t) {
        k.slice(2, piece.begin, piece.end).copy_from(from_k.slice(2, at, at + piece.size()));
        v.slice(2, piece.begin, piece.end).copy_from(from_v.slice(2, at, at + piece.size()));
      });
    };
    place(call_.over.keys.of(call_.rank()), call_.k, call_.v);
    for (size_t n = 0; n < in_.size(); ++n) {
      transfers_[n]->wait();
      place(in_[n].pieces, in_[n].k, in_[n].v);
    }
  }
  const Call& call() const { return call_; }

 private:
  Call call_;
  std::vector<KeyBlock> out_, in_;
  std::vector<std::unique_ptr<Communicator::Transfer>> transfers_;
};

/// This rank's queries, piece after piece, against all keys, into `own`.
void compute(const Call& call, Implementation implementation, const Tensor& k, const Tensor& v,
             const AttentionResult& own) {
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
      into.out = part(own.out);
      for (Tensor* t : {&into.lse, &into.lse_low})
        if (own.lse.defined()) *t = Tensor::empty({batch.size(), call.whole.Hq, piece.size()}, call.compute());
      heed::attention(part(call.q), k.slice(0, batch.begin, batch.end), v.slice(0, batch.begin, batch.end), into, o);
      if (own.lse.defined()) part(own.lse).copy_from(into.lse), part(own.lse_low).copy_from(into.lse_low);
    }
    at += piece.size();
  }
}

}  // namespace

AttentionResult gathered_forward(const Call& call) {
  const Sizes& s = call.whole;
  const AttentionResult own = call.empty_result();
  const Implementation implementation = choose(s, call.options);
  // Keys that no query of this rank may see are not sent, and not read.
  const Tensor k = Tensor::zeros({s.B, 1, s.Lk, s.D}, call.k.dtype());
  const Tensor v = Tensor::zeros({s.B, 1, s.Lk, s.Dv}, call.v.dtype());
  std::optional<Gathering> next;  // while this head is computed
  if (s.Hkv > 0) next.emplace(call.of_heads({0, 1}));
  for (int64_t head = 0; head < s.Hkv; ++head) {
    next->finish(k, v);
    const Call some = next->call();
    next.reset();
    if (head + 1 < s.Hkv) next.emplace(call.of_heads({head + 1, head + 2}));
    compute(some, implementation, k, v, call.of_key_head(own, head));
  }
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
