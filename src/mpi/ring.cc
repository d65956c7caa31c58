// Keys go from rank to rank and meet this rank's queries piece by piece; results are merged, gradients added. At step d
// a rank has the keys of the rank d before it, while those of the next are on their way.
#include <algorithm>
#include <cmath>

#include "mpi/key_block.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

constexpr auto kForward = "mpi::attention", kBackward = "mpi::attention_backward";

/// Some rows of the queries (of one entry, or of all) and some keys that they may see.
struct Pair {
  IndexRange batch, queries;  // entries; rows of the sequence
  int64_t query_row;          // where they begin among this rank's
  IndexRange keys;            // of the sequence
  int64_t key_row;            // where they begin in the block
  bool first;                 // of these queries
  size_t number;              // of the queries and entries
  AttentionOptions options;

  Tensor of_queries(const Tensor& t) const { return rows(t, query_row, queries.size()); }
  Tensor of_keys(const Tensor& t) const { return rows(t, key_row, keys.size()); }
  /// Of what is shaped like the mask, (B or 1, Hq or 1, own Lq or 1, keys).
  Tensor of_mask(const Tensor& t, const Call& call) const {
    Tensor part = t.size(0) == 1 ? t : t.slice(0, batch.begin, batch.end);
    if (call.mask_rows) part = part.slice(2, query_row, query_row + queries.size());
    return is_wide(call) ? part.slice(3, keys.begin, keys.end) : part;
  }
  static bool is_wide(const Call& call) { return call.mask.size(3) > 1 || call.whole.Lk == 1; }

 private:
  Tensor rows(const Tensor& t, int64_t first_row, int64_t count) const {
    return t.slice(0, batch.begin, batch.end).slice(2, first_row, first_row + count);
  }
};

/// f(Pair) for the queries of this rank and the keys of a block, in which the pieces lie one behind another. `own`: it
/// is the rank's own; then each of the queries has a first pair, which the sinks go to, if it sees nothing.
template <class F>
void each_pair(const Call& call, const std::vector<IndexRange>& key_pieces, bool own, const F& f) {
  size_t number = 0;
  for (const int64_t entry : call.entries()) {
    int64_t query_row = 0;
    for (const IndexRange& queries : call.over.queries.of(call.rank())) {
      Pair pair;
      pair.batch = entry < 0 ? IndexRange{0, call.whole.B} : IndexRange{entry, entry + 1};
      pair.queries = queries, pair.query_row = query_row, pair.number = number++;
      pair.first = own;
      const auto meet = [&](IndexRange keys, int64_t key_row) {
        // The mask hides keys past its last.
        if (call.mask.defined() && Pair::is_wide(call))
          keys.end = std::max(keys.begin, std::min(keys.end, call.mask.size(3)));
        if (call.mask.defined() && Pair::is_wide(call) && keys.size() == 0) keys = {0, 0};
        if (!pair.first && !call.may_see(queries, keys)) return;
        pair.keys = keys, pair.key_row = key_row;
        pair.options = call.part(entry, queries.begin, keys);
        if (call.mask.defined()) pair.options.mask = pair.of_mask(call.mask, call);
        if (!pair.first) pair.options.sinks = {};
        f(pair);
        pair.first = false;
      };
      int64_t key_row = 0;
      for (const IndexRange& keys : key_pieces) {
        meet(keys, key_row);
        key_row += keys.size();
      }
      if (pair.first) meet({0, 0}, 0);
      query_row += queries.size();
    }
  }
}

/// compute(keys, their pieces, rank they are of, rank that has this one's now) for this rank's own keys, then for those
/// of the others, the next of which travel meanwhile.
template <class F>
void around_the_ring(const Call& call, const char* operation, const F& compute) {
  struct Travelling {
    KeyBlock out, in;
    std::unique_ptr<Communicator::Transfer> transfer;
  };
  const int rank = call.rank(), size = call.size();
  const auto start = [&](int distance) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    Travelling t;
    t.out = block_for(call, to);
    t.in = KeyBlock(call, call.keys_for(rank, from), call.k.dtype());
    t.transfer = call.ranks.start(operation, t.out.bytes(), t.out.empty() ? Communicator::kNobody : to, t.in.bytes(),
                                  t.in.empty() ? Communicator::kNobody : from);
    return t;
  };
  Travelling next;
  if (size > 1) next = start(1);
  compute(call.k, call.v, call.over.keys.of(rank), rank, rank);
  for (int distance = 1; distance < size; ++distance) {
    const Travelling here = std::move(next);
    here.transfer->wait();
    if (distance + 1 < size) next = start(distance + 1);
    compute(here.in.k, here.in.v, here.in.pieces, (rank + size - distance) % size, (rank + distance) % size);
  }
}

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

/// The results of some queries over the keys they have met: out (B, Hq, rows, Dv) in the compute type, and lse in
/// double, since its rounding at every step would be a factor on all of a row's weights in backward.
class Merged {
 public:
  /// Joins what the queries see of further keys, as heed::merge does.
  template <class T>
  void add(const AttentionResult& part, Executor* executor) {
    const bool first = !lse_.defined();
    if (first) out_ = part.out, lse_ = part.lse.to(DType::f64);
    if (first) return;
    const int64_t width = out_.size(3);
    parallel_for(executor ? *executor : default_executor(), lse_.size(0) * lse_.size(1), [&](int64_t head) {
      for (int64_t row = head * lse_.size(2); row < (head + 1) * lse_.size(2); ++row) {
        double& lse = lse_.data<double>()[row];
        const double added = part.lse.data<T>()[row];
        if (added == -INFINITY) continue;  // saw nothing
        const double all =
            lse == -INFINITY ? added : std::max(lse, added) + std::log1p(std::exp(-std::fabs(lse - added)));
        const T share = static_cast<T>(std::exp(lse - all)), share2 = static_cast<T>(std::exp(added - all));
        T* const to = out_.data<T>() + row * width;
        const T* const from = part.out.data<T>() + row * width;
        for (int64_t d = 0; d < width; ++d) to[d] = share == 0 ? share2 * from[d] : share * to[d] + share2 * from[d];
        lse = all;
      }
    });
  }
  const Tensor& out() const { return out_; }
  const Tensor& lse() const { return lse_; }

 private:
  Tensor out_, lse_;
};

/// A floating mask in the type that queries have here.
void convert_mask(AttentionOptions& o, DType compute) {
  if (o.mask.defined() && o.mask.dtype() != DType::boolean) o.mask = o.mask.to(compute);
}

/// (Hq) in double, of this rank's queries: a sink takes its share exp(sink - lse) of every row and gives no value for
/// it. No pair of pieces knows whether a row sees anything.
Tensor sink_gradients(const Call& call, const Tensor& grad_out, const Tensor& out, const Tensor& lse,
                      const Tensor& grad_lse) {
  const Tensor sinks = call.options.sinks.to(DType::f64).contiguous(),
               sums = Tensor::zeros({call.whole.Hq}, DType::f64);
  for (int64_t b = 0; b < call.whole.B; ++b)
    for (int64_t h = 0; h < call.whole.Hq; ++h) {
      const auto of_head = [&](const Tensor& t) { return t.select(0, b).select(0, h).to(DType::f64); };
      const Tensor grad = of_head(grad_out), o = of_head(out), log_sums = of_head(lse);
      const Tensor dlse = grad_lse.defined() ? of_head(grad_lse) : Tensor();
      for (int64_t i = 0; i < o.size(0); ++i) {
        if (log_sums.at<double>(i) == -INFINITY) continue;
        double delta = dlse.defined() ? -dlse.at<double>(i) : 0;
        for (int64_t d = 0; d < o.size(1); ++d) {
          const double x = o.at<double>(i, d);
          if (x != 0) delta += x * grad.at<double>(i, d);  // 0 of a row that sees nothing: NaN goes nowhere
        }
        sums.at<double>(h) -= std::exp(sinks.at<double>(h) - log_sums.at<double>(i)) * delta;
      }
    }
  return sums;
}

/// One key head, and the query heads that read it, into out and lse (where defined).
void forward_of_head(const Call& call, const Tensor& out, const Tensor& lse) {
  const Tensor q = call.q.to(call.compute());
  std::vector<Merged> merged(call.entries().size() * call.over.queries.of(call.rank()).size());
  around_the_ring(call, kForward,
                  [&](const Tensor& k, const Tensor& v, const std::vector<IndexRange>& pieces, int from, int) {
                    each_pair(call, pieces, from == call.rank(), [&](Pair& pair) {
                      convert_mask(pair.options, call.compute());
                      pair.options.want_lse = true;
                      const AttentionResult part =
                          heed::attention(pair.of_queries(q), pair.of_keys(k), pair.of_keys(v), pair.options);
                      Merged& all = merged[pair.number];
                      call.compute() == DType::f64 ? all.add<double>(part, call.options.executor)
                                                   : all.add<float>(part, call.options.executor);
                    });
                  });
  each_pair(call, {}, true, [&](const Pair& pair) {
    pair.of_queries(out).copy_from(merged[pair.number].out());
    if (lse.defined()) pair.of_queries(lse).copy_from(merged[pair.number].lse());
  });
}

/// What backward has of one key head, and of the query heads that read it; (B, heads, own rows, width) or as the mask.
struct HeadOfBackward {
  Tensor grad_out, out, lse, grad_lse;
  Tensor dq, dk, dv, dmask;  // dmask in double, where wanted
};

/// Adds the gradients of a pair, those of keys to to_k and to_v.
void add_gradients(const Call& call, Pair& pair, const HeadOfBackward& head, const Tensor& q, const Tensor& k,
                   const Tensor& v, const BackwardOptions& wanted, const Tensor& to_k, const Tensor& to_v) {
  convert_mask(pair.options, call.compute());
  AttentionResult forward;
  forward.out = pair.of_queries(head.out);
  forward.lse = pair.of_queries(head.lse).contiguous();
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
      call, kBackward, [&](const Tensor& k, const Tensor& v, const std::vector<IndexRange>& pieces, int from, int to) {
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
        call.ranks.exchange(kBackward, back.bytes(), back.empty() ? Communicator::kNobody : from, in.bytes(),
                            in.empty() ? Communicator::kNobody : to);
        each_piece(in.pieces, own_keys, [&](const IndexRange& piece, int64_t at, int64_t among) {
          add(head.dk.slice(2, among, among + piece.size()), in.k.slice(2, at, at + piece.size()));
          add(head.dv.slice(2, among, among + piece.size()), in.v.slice(2, at, at + piece.size()));
        });
      });
}

}  // namespace

AttentionResult ring_forward(const Call& call) {
  const Sizes& s = call.whole;
  AttentionResult own;
  own.out = Tensor::empty({s.B, s.Hq, call.q.size(2), s.Dv}, call.q.dtype());
  if (call.options.want_lse) own.lse = Tensor::empty({s.B, s.Hq, call.q.size(2)}, call.compute());
  for (int64_t head = 0; head < s.Hkv; ++head) {
    const IndexRange heads{head * call.group(), (head + 1) * call.group()};
    forward_of_head(call.of_heads({head, head + 1}), own.out.slice(1, heads.begin, heads.end),
                    own.lse.defined() ? own.lse.slice(1, heads.begin, heads.end) : Tensor());
  }
  return own;
}

AttentionGradients ring_backward(const Call& call, const Tensor& grad_out, const Tensor& out, const Tensor& lse,
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
    head.grad_out = some(grad_out).to(type), head.out = some(out).to(type), head.lse = some(lse);
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
    const Tensor dsinks = sink_gradients(call, grad_out, out, lse, wanted.grad_lse);
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
