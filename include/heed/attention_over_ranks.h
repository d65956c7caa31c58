// attention() on sequences that are split over ranks, forward and backward: each rank has some rows of the queries and
// some of the keys, and no rank ever has all of them. Every rank makes the same call, with its own rows and with the
// options of the whole.
#pragma once

#include "heed/attention_operator.h"
#include "heed/communicator.h"
#include "heed/split.h"

namespace heed::inline v0 {
namespace mpi {

/// How keys and queries meet. N ranks; sizes in elements, of all heads together: Q = Hq Lq (D + Dv), K = Hkv Lk (D +
/// Dv).
enum class Meeting : uint8_t {
  /// The bits of one machine, whatever the split. Forward gathers the keys of one key head at a time: a rank sends
  /// (N-1)/N K and has memory for one key head and the next, on its way. Queries in pieces of less than a tile (64),
  /// ragged batches, block masks that are not cut at tiles, and what one machine would decode are computed as by
  /// `heads`, one key head a rank at a time; so is all of backward.
  exact,
  /// Keys go from rank to rank while the ones before are computed with; results are merged: sums in another order, and
  /// gradients of keys come back the same way (Liu et al. 2023, "Ring Attention with Blockwise Transformers for
  /// Near-Infinite Context", 3). Only keys that a rank's queries may see by position are sent to it, so with a window
  /// neighbours alone talk. Forward sends at most (N-1)/N K, backward twice that.
  ring,
  /// The bits of one machine. Each rank computes some of the key heads, with all queries and keys of them (Jacobs et
  /// al. 2023, "DeepSpeed Ulysses", 3). Forward sends (N-1)/N (Q + K) / N: least where ranks are many, but no more
  /// ranks have work than there are key heads.
  heads,
};

/// Where the rows of a call are.
struct OverRanks {
  Split queries, keys;  // of the whole sequences, the same on all ranks
  Meeting meeting = Meeting::exact;
};

/// This rank's rows: q (B, Hq, own Lq, D), k (B, Hkv, own Lk, D), v (B, Hkv, own Lk, Dv) -> out (B, Hq, own Lq, Dv),
/// lse (B, Hq, own Lq) where wanted. Ragged batches (not `ring`): q (own Tq, Hq, D), k and v (own Tk, Hkv, .), the
/// splits cut tokens, q_offsets and k_offsets are the whole's; lse (Hq, own Tq).
///
/// Options are those of the whole: offset, key_lengths, alibi, sinks, dropout with its seed and stream, score_mod and
/// block_mask, the same on all ranks. A mask broadcasts to (B, Hq, own Lq, Lk): this rank's rows (or one for all), all
/// keys. `part` is set here; weights and scores have no rank that could hold them.
/// Throws ShapeError, alike on all ranks where the arguments are; RankError when ranks fail or differ.
AttentionResult attention(Communicator& ranks, const Tensor& q, const Tensor& k, const Tensor& v, const OverRanks& over,
                          const AttentionOptions& options = {});

/// Gradients of this rank's rows, as attention_backward gives them; `forward` is this rank's. Those of the sinks, and
/// of a mask with one row for all queries, are of the whole, on every rank. Other than by `ring`, a mask whose gradient
/// is wanted has a matrix for each head where there are several key heads. A visitor sees the tiles that its rank
/// computes, at their places in the whole: all ranks' together are those of one machine.
AttentionGradients attention_backward(Communicator& ranks, const Tensor& grad_out, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& forward, const OverRanks& over,
                                      const AttentionOptions& options = {}, const BackwardOptions& backward = {});

/// The two for a layer's attention, of queries and keys that are split alike. `ranks` must outlive it.
AttentionOperator attention_operator(Communicator& ranks, const Split& rows, Meeting meeting = Meeting::exact);

}  // namespace mpi
}  // namespace heed::inline v0
