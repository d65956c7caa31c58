// The results of this rank's queries with the keys of each rank, merged.
#include <vector>

#include "attention/log_sum.h"
#include "mpi/ring.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

/// The results of some queries over the keys they have met: out (B, Hq, rows, Dv) in the compute type, and a LogSum a
/// row, since lse's rounding at every step would be a factor on all of a row's weights in backward.
class Merged {
 public:
  /// Joins what the queries see of further keys, as heed::merge does.
  template <class T>
  void add(const AttentionResult& part, Executor* executor) {
    const auto added = [&](int64_t row) { return LogSum(part.lse.data<T>()[row], part.lse_low.data<T>()[row]); };
    if (!out_.defined()) {
      out_ = part.out;
      for (int64_t row = 0; row < part.lse.numel(); ++row) sums_.push_back(added(row));
      return;
    }
    const int64_t width = out_.size(3), rows = out_.size(2);
    parallel_for(executor ? *executor : default_executor(), out_.size(0) * out_.size(1), [&](int64_t head) {
      for (int64_t row = head * rows; row < (head + 1) * rows; ++row) {
        LogSum& sum = sums_[static_cast<size_t>(row)];
        const LogSum more = added(row);
        if (more.is_nothing()) continue;
        const LogSum all = sum + more;
        const T share = static_cast<T>(sum.share_of(all)), share2 = static_cast<T>(more.share_of(all));
        T* const to = out_.data<T>() + row * width;
        const T* const from = part.out.data<T>() + row * width;
        for (int64_t d = 0; d < width; ++d) to[d] = share == 0 ? share2 * from[d] : share * to[d] + share2 * from[d];
        sum = all;
      }
    });
  }
  /// Into rows of the queries; lse and lse_low where they are defined.
  template <class T>
  void write(const Tensor& out, const Tensor& lse, const Tensor& lse_low) const {
    out.copy_from(out_);
    if (!lse.defined()) return;
    const Tensor high = Tensor::empty(lse.shape(), lse.dtype()), low = Tensor::empty(lse.shape(), lse.dtype());
    for (int64_t row = 0; row < high.numel(); ++row) {
      high.data<T>()[row] = sums_[static_cast<size_t>(row)].template rounded<T>();
      low.data<T>()[row] = sums_[static_cast<size_t>(row)].template rest<T>();
    }
    lse.copy_from(high);
    lse_low.copy_from(low);
  }

 private:
  Tensor out_;
  std::vector<LogSum> sums_;  // (B, Hq, rows)
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
    const auto part = [&](const Tensor& t) { return t.defined() ? pair.of_queries(t) : t; };
    const Merged& all = merged[pair.number];
    call.compute() == DType::f64 ? all.write<double>(part(own.out), part(own.lse), part(own.lse_low))
                                 : all.write<float>(part(own.out), part(own.lse), part(own.lse_low));
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
