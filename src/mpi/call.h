// A call of attention over ranks, checked: sizes of the whole, this rank's rows, and what is visible by position.
#pragma once

#include <optional>
#include <vector>

#include "attention/problem.h"
#include "heed/attention_over_ranks.h"

namespace heed::inline v0 {
namespace mpi {

struct Call {
  Communicator& ranks;
  const OverRanks& over;
  AttentionOptions options;  // of the whole, without what is this rank's
  Tensor q, k, v;            // this rank's, (B, H, rows, width) of ragged batches, too
  Sizes whole;               // of all ranks' rows
  int64_t first_head = 0;    // query head, in a call with all_heads
  int64_t all_heads = 0;
  Tensor mask;             // this rank's (B or 1, Hq or 1, own Lq or 1, keys), where there is one
  bool mask_rows = false;  // whether it has a row for each query

  /// Throws ShapeError.
  Call(const char* operation, Communicator& communicator, const Tensor& queries, const Tensor& keys,
       const Tensor& values, const OverRanks& layout, const AttentionOptions& of_whole);

  int rank() const { return ranks.rank(); }
  int size() const { return ranks.size(); }
  bool additive() const { return mask.defined() && mask.dtype() != DType::boolean; }
  DType compute() const { return q.dtype() == DType::f64 ? DType::f64 : DType::f32; }
  int64_t group() const { return whole.Hkv == 0 ? 1 : whole.Hq / whole.Hkv; }
  /// Whether positions may let one of the queries see one of the keys.
  bool may_see(const IndexRange& query_rows, const IndexRange& key_rows) const;
  /// The keys of rank `from` that a query of rank `to` may see, in whole pieces.
  std::vector<IndexRange> keys_for(int to, int from) const;
  /// The options of queries [query, ...) and keys [key, ...) of entry `b` (all entries: -1) and of all query heads,
  /// without masks: top_left with the offset that bottom_right stands for.
  AttentionOptions part(int64_t b, int64_t query, IndexRange key_rows) const;
  /// The same of some key heads, whose tensors are views: what is in memory twice is then a head's.
  Call of_heads(IndexRange key_heads) const;
  /// out, lse and lse_low (where wanted) of this rank's rows, with memory to be written, and
  AttentionResult empty_result() const;
  /// views of what the query heads of a key head have of them.
  AttentionResult of_key_head(const AttentionResult& own, int64_t key_head) const;
  /// Entries that part() is to be asked for one by one; otherwise {-1}.
  std::vector<int64_t> entries() const;

 private:
  void check_tensor(const char* operation, const char* name, const Tensor& t, const Split& split) const;
  void take_mask(const char* operation);
  void check_agreement(const char* operation) const;
};

// Ragged tensors are looked at as those of one entry.
Tensor as_heads(const Tensor& t, bool ragged);  // (T, H, width) as (1, H, T, width)
Tensor as_rows(const Tensor& t, bool ragged);   // the same backwards
/// A number for each row, (B, H, L) or (H, T), as (B, H, L, 1).
Tensor as_column(const Tensor& rows);
/// lse and lse_low, each (B, H, L) or (H, T), in one tensor (B, H, L, 2).
Tensor as_columns(const Tensor& lse, const Tensor& lse_low);

/// A slice along heads or entries, unless one stands for all.
Tensor heads_slice(const Tensor& t, int dimension, IndexRange heads);

// The three ways. Results are this rank's rows, (B, H, rows, width); lse and lse_low are (B, Hq, rows), both defined in
// backward.
AttentionResult gathered_forward(const Call& call);
AttentionResult ring_forward(const Call& call);
AttentionGradients ring_backward(const Call& call, const Tensor& grad_out, const AttentionResult& forward,
                                 const BackwardOptions& wanted);
/// `together`: of so many key heads at a time.
AttentionResult dealt_forward(const Call& call, int64_t together);
AttentionGradients dealt_backward(const Call& call, const Tensor& grad_out, const AttentionResult& forward,
                                  const BackwardOptions& wanted, int64_t together);

}  // namespace mpi
}  // namespace heed::inline v0
