// The results of this rank's queries with the keys of each rank, merged.
#include <cmath>

#include "mpi/ring.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

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

/// One key head, and the query heads that read it, into `own`.
void forward_of_head(const Call& call, const AttentionResult& own) {
  const Tensor q = call.q.to(call.compute());
  std::vector<Merged> merged(call.entries().size() * call.over.queries.of(call.rank()).size());
  around_the_ring(call, "mpi::attention",
                  [&](const Tensor& k, const Tensor& v, const std::vector<IndexRange>& pieces, int from, int) {
                    each_pair(call, pieces, from == call.rank(), [&](Pair& pair) {
                      pair.options.want_lse = true;
                      const AttentionResult part =
                          heed::attention(pair.of_queries(q), pair.of_keys(k), pair.of_keys(v), pair.options);
                      Merged& all = merged[pair.number];
                      call.compute() == DType::f64 ? all.add<double>(part, call.options.executor)
                                                   : all.add<float>(part, call.options.executor);
                    });
                  });
  // Once more over the queries, with no keys.
  each_pair(call, {}, true, [&](const Pair& pair) {
    pair.of_queries(own.out).copy_from(merged[pair.number].out());
    if (own.lse.defined()) pair.of_queries(own.lse).copy_from(merged[pair.number].lse());
  });
}

}  // namespace

AttentionResult ring_forward(const Call& call) {
  const AttentionResult own = call.empty_result();
  for (int64_t head = 0; head < call.whole.Hkv; ++head)
    forward_of_head(call.of_heads({head, head + 1}), call.of_key_head(own, head));
  return own;
}

}  // namespace mpi
}  // namespace heed::inline v0
