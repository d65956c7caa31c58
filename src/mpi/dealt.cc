// Each rank computes some key heads with all their queries and keys, as one machine does: all-to-all from rows to
// heads, and back.
#include <algorithm>

#include "mpi/call.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

/// The key heads of each rank, for one exchange after another.
class Deal {
 public:
  Deal(const Call& call, const char* operation, int64_t first, int64_t count)
      : call_(call), operation_(operation), first_(first), count_(count) {}
  IndexRange key_heads(int rank) const {
    const IndexRange dealt = leaves_of(count_, rank, call_.size());
    return {first_ + dealt.begin, first_ + dealt.end};
  }
  IndexRange own() const { return key_heads(call_.rank()); }
  IndexRange query_heads() const { return {own().begin * call_.group(), own().end * call_.group()}; }

  /// t (B, H, own rows, width) -> (B, heads of this rank, all rows, width). H is Hq, Hkv, or 1 for all.
  Tensor to_heads(const Tensor& t, const Split& split) const {
    Dims shape = t.shape();
    shape[1] = heads(t, call_.rank()).size();
    shape[2] = split.length();
    const Tensor all = Tensor::empty(shape, t.dtype());
    place(t.slice(1, heads(t, call_.rank()).begin, heads(t, call_.rank()).end), split.of(call_.rank()), all);
    each_distance([&](int to, int from) {
      const IndexRange theirs = heads(t, to);
      const Tensor out = t.slice(1, theirs.begin, theirs.end).contiguous();
      shape[2] = split.rows(from);
      const Tensor in = Tensor::empty(shape, t.dtype());
      exchange(out, to, in, from);
      place(in, split.of(from), all);
    });
    return all;
  }
  /// The way back, into this rank's rows: t (B, H, own rows, width), of which heads that are dealt now are written.
  void to_rows(const Tensor& all, const Split& split, const Tensor& t) const {
    take(all, split.of(call_.rank()), t.slice(1, heads(t, call_.rank()).begin, heads(t, call_.rank()).end));
    each_distance([&](int to, int from) {
      Dims shape = all.shape();
      shape[2] = split.rows(to);
      const Tensor out = Tensor::empty(shape, t.dtype());
      take(all, split.of(to), out);
      const IndexRange theirs = heads(t, from);
      const Tensor into = t.slice(1, theirs.begin, theirs.end), in = Tensor::empty(into.shape(), t.dtype());
      exchange(out, to, in, from);
      into.copy_from(in);
    });
  }
  /// What each rank has of its heads, to all: t (B, H, ...), of which heads that are dealt now are written.
  void to_all(const Tensor& own, const Tensor& t) const {
    t.slice(1, heads(t, call_.rank()).begin, heads(t, call_.rank()).end).copy_from(own);
    each_distance([&](int to, int from) {
      const IndexRange theirs = heads(t, from);
      const Tensor into = t.slice(1, theirs.begin, theirs.end), in = Tensor::empty(into.shape(), t.dtype());
      exchange(own.contiguous(), to, in, from);
      into.copy_from(in);
    });
  }

 private:
  IndexRange heads(const Tensor& t, int rank) const {
    const IndexRange dealt = key_heads(rank);
    if (dealt.size() == 0) return {0, 0};
    if (t.size(1) == 1) return {0, 1};
    const int64_t each = t.size(1) / call_.whole.Hkv;
    return {dealt.begin * each, dealt.end * each};
  }
  static void place(const Tensor& rows, const std::vector<IndexRange>& pieces, const Tensor& all) {
    int64_t at = 0;
    for (const IndexRange& piece : pieces) {
      all.slice(2, piece.begin, piece.end).copy_from(rows.slice(2, at, at + piece.size()));
      at += piece.size();
    }
  }
  static void take(const Tensor& all, const std::vector<IndexRange>& pieces, const Tensor& rows) {
    int64_t at = 0;
    for (const IndexRange& piece : pieces) {
      rows.slice(2, at, at + piece.size()).copy_from(all.slice(2, piece.begin, piece.end));
      at += piece.size();
    }
  }
  template <class F>
  void each_distance(const F& f) const {
    for (int distance = 1; distance < call_.size(); ++distance)
      f((call_.rank() + distance) % call_.size(), (call_.rank() + call_.size() - distance) % call_.size());
  }
  void exchange(const Tensor& out, int to, const Tensor& in, int from) const {
    const auto bytes = [](const Tensor& t) {
      return std::span(static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.nbytes()));
    };
    const int nobody = Communicator::kNobody;
    call_.ranks.exchange(operation_, bytes(out), out.numel() ? to : nobody, bytes(in), in.numel() ? from : nobody);
  }

  const Call& call_;
  const char* operation_;
  int64_t first_, count_;
};

/// One turn: the options of this rank's heads, and its operands with all rows.
struct Turn {
  Tensor q, k, v, mask;
  AttentionOptions options;

  Turn(const Call& call, const Deal& deal)
      : q(deal.to_heads(call.q, call.over.queries)),
        k(deal.to_heads(call.k, call.over.keys)),
        v(deal.to_heads(call.v, call.over.keys)),
        options(call.options) {
    if (call.mask.defined() && call.mask_rows) mask = deal.to_heads(call.mask, call.over.queries);
    if (call.mask.defined() && !call.mask_rows) mask = heads_slice(call.mask, 1, deal.query_heads());
    options.mask = mask;
    options.part = {.first_head = deal.query_heads().begin, .heads = call.whole.Hq};
    const bool ragged = call.whole.ragged;
    q = as_rows(q, ragged), k = as_rows(k, ragged), v = as_rows(v, ragged);
    for (Tensor* t : {&options.alibi, &options.sinks})
      if (t->defined()) *t = t->slice(0, deal.query_heads().begin, deal.query_heads().end);
  }
};

/// deal(Deal) for so many key heads at a time.
template <class F>
void in_turns(const Call& call, const char* operation, int64_t together, const F& turn) {
  for (int64_t first = 0; first < call.whole.Hkv; first += together)
    turn(Deal(call, operation, first, std::min(together, call.whole.Hkv - first)));
}

}  // namespace

AttentionResult dealt_forward(const Call& call, int64_t together) {
  const bool ragged = call.whole.ragged;
  Dims shape = call.q.shape();
  shape[3] = call.whole.Dv;
  const AttentionResult own = call.empty_result();
  Tensor columns;  // (B, Hq, own rows, 2): lse, lse_low
  if (own.lse.defined())
    columns = Tensor::empty({own.lse.size(0), own.lse.size(1), own.lse.size(2), 2}, call.compute());
  in_turns(call, "mpi::attention", together, [&](const Deal& deal) {
    const Turn turn(call, deal);
    shape[1] = deal.query_heads().size();
    shape[2] = call.over.queries.length();
    AttentionResult all;
    if (deal.own().size() > 0) {
      all = heed::attention(turn.q, turn.k, turn.v, turn.options);
    } else {
      all.out = as_rows(Tensor::empty(shape, call.q.dtype()), ragged);
      all.lse = all.lse_low = ragged ? Tensor::empty({0, shape[2]}, call.compute())
                                     : Tensor::empty({shape[0], 0, shape[2]}, call.compute());
    }
    deal.to_rows(as_heads(all.out, ragged), call.over.queries, own.out);
    if (own.lse.defined()) deal.to_rows(as_columns(all.lse, all.lse_low), call.over.queries, columns);
  });
  if (!own.lse.defined()) return own;
  own.lse.copy_from(columns.select(3, 0));
  own.lse_low.copy_from(columns.select(3, 1));
  return own;
}

AttentionGradients dealt_backward(const Call& call, const Tensor& grad_out, const AttentionResult& forward,
                                  const BackwardOptions& wanted, int64_t together) {
  const bool ragged = call.whole.ragged;
  const Split& queries = call.over.queries;
  AttentionGradients own;
  own.q = Tensor::empty(call.q.shape(), call.q.dtype());
  own.k = Tensor::empty(call.k.shape(), call.k.dtype());
  own.v = Tensor::empty(call.v.shape(), call.v.dtype());
  if (wanted.want_mask) own.mask = Tensor::empty(call.mask.shape(), call.compute());
  if (wanted.want_sinks) own.sinks = Tensor::empty({call.whole.Hq}, call.compute());
  in_turns(call, "mpi::attention_backward", together, [&](const Deal& deal) {
    const Turn turn(call, deal);
    const auto as_lse = [&](const Tensor& all) {  // (B, this rank's heads, all rows) as attention has it
      return (ragged ? all.select(0, 0) : all).contiguous();
    };
    const Tensor columns = deal.to_heads(as_columns(forward.lse, forward.lse_low), queries);
    AttentionResult saved;
    saved.out = as_rows(deal.to_heads(forward.out, queries), ragged);
    saved.lse = as_lse(columns.select(3, 0)), saved.lse_low = as_lse(columns.select(3, 1));
    const Tensor grad = as_rows(deal.to_heads(grad_out, queries), ragged);
    BackwardOptions options = wanted;
    if (wanted.grad_lse.defined())
      options.grad_lse = as_lse(deal.to_heads(as_column(wanted.grad_lse), queries).select(3, 0));
    AttentionGradients all;
    if (deal.own().size() > 0) {
      all = attention_backward(grad, turn.q, turn.k, turn.v, saved, turn.options, options);
    } else {
      all.q = turn.q, all.k = turn.k, all.v = turn.v;  // of no heads
      all.sinks = Tensor::empty({0}, call.compute());
      if (wanted.want_mask) {
        Dims shape = turn.mask.shape();
        shape[1] = 0;
        all.mask = Tensor::empty(shape, call.compute());
      }
    }
    deal.to_rows(as_heads(all.q, ragged), queries, own.q);
    deal.to_rows(as_heads(all.k, ragged), call.over.keys, own.k);
    deal.to_rows(as_heads(all.v, ragged), call.over.keys, own.v);
    if (own.sinks.defined())
      deal.to_all(all.sinks.reshape({1, all.sinks.size(0)}), own.sinks.reshape({1, call.whole.Hq}));
    if (own.mask.defined())
      call.mask_rows ? deal.to_rows(all.mask, queries, own.mask) : deal.to_all(all.mask, own.mask);
  });
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
