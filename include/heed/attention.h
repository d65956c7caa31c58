// The central call: softmax(scores) V, forward and backward, fused: extra memory O(Lq + Lk) a head.
// scores = mods(scale * Q K^T), in this order: scale, softcap, score_mod, mask and ALiBi, what hides, sinks; then
// softmax, dropout, times V.
//
// B batch, Hq query heads, Hkv key/value heads (Hq a multiple of Hkv), Lq / Lk query / key length,
// D head size of q and k, Dv head size of v, Tq / Tk tokens of a ragged batch.
// Query i stands at key position i + o: o is options.offset, or n - Lq where bottom_right says so.
// Compute type: float64 for float64 operands, float32 for float32, float16 and bfloat16 (which are storage).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/executor.h"
#include "heed/score_mod.h"
#include "heed/tensor.h"
#include "heed/workspace.h"

namespace heed::inline v0 {

/// Which keys j a query i may see. They differ when Lq != Lk.
enum class Causal : uint8_t {
  none,
  top_left,      // j <= i + options.offset
  bottom_right,  // j <= i + n - Lq, n = key_lengths[b] (Lk where there are none): the last query sees the last key
};

/// Keys i + o - left <= j <= i + o + right; -1 is unlimited.
struct Window {
  int64_t left = -1, right = -1;
};

enum class Implementation : uint8_t {
  automatic,  // the first of the list below that does not refuse; explain() tells which and why
  decode,     // few queries, many keys: bound by memory, split along the keys
  fused,      // tiles of 64 queries by 64 keys
  /// The specification that the rest is tested against: one row of scores at a time, sums in double. Scores are rounded
  /// to the compute type.
  reference,
};

/// A stage of the scores on their way to weights (the modes 0 to 3 of ONNX's qk_matmul_output).
enum class ScoreStage : uint8_t {
  scaled,   // scale * q . k
  softcap,  // after softcap
  masked,   // after everything that adds or hides: -inf where hidden
  weights,  // after softmax, before dropout
};

/// The part of the weights that is wanted. The default is all of them, dense.
struct WeightsSelection {
  Tensor heads{};  // (N) int64 query heads; absent: all Hq
  Tensor rows{};   // (R) int64 queries; absent: all Lq
  /// Below 1: of each row only the fewest largest weights whose sum reaches top_p, into AttentionResult::top.
  double top_p = 1;
  /// Of what it leaves of weights (B, Hq, Lq, Lk), dense.
  Dims shape(int64_t B, int64_t Hq, int64_t Lq, int64_t Lk) const {
    return {B, heads.defined() ? heads.size(0) : Hq, rows.defined() ? rows.size(0) : Lq, Lk};
  }
};

/// Where a call stands in a larger one, of which it computes a part: its first entry, query head, query and key are
/// these of the whole.
struct AttentionPart {
  int64_t first_batch = 0, first_head = 0, first_query = 0, first_key = 0;
  /// Hq of the whole; 0: first_head + that of the call. With it a part of some heads and of all entries, queries and
  /// keys has the whole's bits, forward and backward.
  int64_t heads = 0;
};

struct AttentionOptions {
  Causal causal = Causal::none;
  /// Key position of query 0: the length of a cache in front of the first new key. For causal top_left, windows, ALiBi.
  /// Of a part it is the whole's: query i of the call stands at key position part.first_query + i + offset, its key j
  /// at part.first_key + j.
  int64_t offset = 0;
  Window window{};
  /// Factor on q . k; 1/sqrt(D) when absent ("Attention Is All You Need", 3.2.1).
  std::optional<double> scale{};
  /// s -> softcap * tanh(s / softcap), before any mask; 0 is off (Gemma 2, arXiv 2408.00118, 2).
  double softcap = 0;
  /// Changes scores between softcap and mask: heed::score_mod(lambda).
  ScoreMod score_mod{};
  /// Broadcasts to (B, Hq, Lq, Lk), aligned from the right. Boolean: true = may be attended. Floating (the compute
  /// type): added to the score, in the compute type; -inf hides. Every finite number is added, the lowest one too: a
  /// row of nothing else has the softmax of the rounded sums, as in other libraries. A last dimension m with 1 < m < Lk
  /// hides the keys past it.
  Tensor mask{};
  /// Tiles of (query, key) classed once as empty, full or partial: heed::block_mask(lambda, ...).
  BlockMask block_mask{};
  /// (Hq), the compute type: adds -slope * |i + o - j| (Press et al. 2022, "Train short, test long", 3).
  Tensor alibi{};
  /// (Hq), the compute type: one more logit in every row's denominator and lse, with no value behind it.
  Tensor sinks{};
  /// (B) int32 or int64, each in 0..Lk: keys at or past it are hidden, and not read. Absent: all Lk.
  Tensor key_lengths{};
  /// Ragged batches: (B + 1) int32 or int64, from 0, not falling, ending at Tq and Tk. Entry b has the rows
  /// offsets[b] .. offsets[b + 1] - 1 of q (Tq, Hq, D) and k, v (Tk, Hkv, .). Both or neither.
  Tensor q_offsets{}, k_offsets{};
  /// Probability of dropping a weight, in [0, 1); the kept are divided by 1 - dropout. The draw depends on
  /// (seed, stream, b, h, query, key) alone. lse and weights are those before dropout.
  double dropout = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  /// A call may be computed in parts, on one machine or several, with the results of the whole but for rounding: those
  /// of entries, heads or queries stand side by side, those of keys are joined by merge(). Draws, score_mod, ALiBi,
  /// windows, causal top_left and a visitor go by the positions of the whole, and so does block_mask, which is the
  /// whole's; then first_query and first_key are multiples of kTile. Tensors are the part's own; sinks go to one of the
  /// parts of the keys. Backward takes out, lse and lse_low of the whole; gradients of what several parts read are
  /// added up.
  AttentionPart part{};
  bool want_lse = false;      // natural log of the sum of exp of a row's scores; -inf where nothing is visible; lse_low
  bool want_weights = false;  // the softmax itself, all or `selection` of it
  WeightsSelection selection{};
  std::optional<ScoreStage> want_scores{};  // (B, Hq, Lq, Lk)
  Implementation implementation = Implementation::automatic;
  Executor* executor = nullptr;    // default_executor() when null
  Workspace* workspace = nullptr;  // scratch memory to use again: the second call of its size allocates nothing
};

/// Compressed rows: row r has entries offsets[r] .. offsets[r + 1] - 1, largest weight first.
struct TopWeights {
  Tensor offsets;  // (rows + 1) int64; rows run over (B, N, R)
  Tensor keys;     // int64
  Tensor weights;  // the compute type
};

/// lse, lse_low, weights and scores have the compute type. Of a ragged batch: out (Tq, Hq, Dv), lse and lse_low (Hq,
/// Tq), weights and scores (N, Tq, longest Lk), zeros (scores: -inf) past an entry's keys; top: rows run over (N, Tq).
struct AttentionResult {
  Tensor out;  // (B, Hq, Lq, Dv), the dtype of q
  Tensor lse;  // (B, Hq, Lq), defined when asked for
  /// (B, Hq, Lq), defined with lse: the rounding error of lse, so that lse + lse_low is the logarithm. 0 where lse is
  /// not finite. Large scores need it: next to a mask of -1e9 nothing of the sum is left in lse.
  Tensor lse_low;
  Tensor weights;  // (B, Hq, Lq, Lk) or (B, N, R, Lk), defined when asked for and selection.top_p is 1
  Tensor scores;   // (B, Hq, Lq, Lk), defined when asked for
  TopWeights top;  // defined when asked for and selection.top_p is below 1
  operator Tensor() const { return out; }
};

/// q (B, Hq, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv), all of one dtype: float32, float64, float16 or bfloat16,
/// or q float32 over k and v in one of the halves; any strides with the innermost 1; D from 1 on. Ragged:
/// q (Tq, Hq, D), k (Tk, Hkv, D), v (Tk, Hkv, Dv).
/// A row that may see nothing gives 0 (lse -inf, or the sink). A NaN or Inf in a hidden key or value changes no bit.
/// Throws ShapeError.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// Writes into caller-owned memory: `into.out` must be defined, shaped like the result, any strides with the innermost
/// 1; `into.lse`, `into.lse_low`, `into.weights` and `into.scores` (contiguous) are written where they are defined,
/// whatever the options want. into.lse_low needs into.lse. selection.top_p must be 1.
void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
               const AttentionOptions& options = {});

/// attention(q, k, v, options, [](auto score, auto at) { return score + 0.02f * (at.key - at.query); })
template <class F>
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options, F mod) {
  options.score_mod = score_mod(std::move(mod));
  return attention(q, k, v, options);
}
template <class F>
void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into, AttentionOptions options,
               F mod) {
  options.score_mod = score_mod(std::move(mod));
  attention(q, k, v, into, options);
}

struct AttentionGradients {
  Tensor q, k, v;  // shaped like q, k, v, of their dtype
  Tensor mask;     // shaped like an additive mask: the sum over the dimensions it broadcasts along
  Tensor sinks;    // (Hq)
};

/// What backward takes and gives beyond forward's options.
struct BackwardOptions {
  bool want_mask = false;   // the gradient of an additive mask
  bool want_sinks = false;  // the gradient of the sinks
  /// Gradient of lse, shaped like it, the compute type; absent: 0.
  Tensor grad_lse{};
  /// Receives d loss / d score tile by tile, in an order that never changes, on the calling thread: the gradients of a
  /// score_mod's own parameters. heed::score_visitor(lambda).
  ScoreVisitor visitor{};
};

/// Gradients of sum(grad_out * out) + sum(grad_lse * lse). `forward` needs out and lse of the forward call with the
/// same options. Where it has no lse_low, rows whose lse is further from 0 than 64 take one more pass over their
/// scores; a part of the keys cannot do that, and throws ShapeError where lse has lost the sum (2^13 in float32). The
/// first part, with first_key 0, looks like a whole: without lse_low its large rows would be normalised by themselves.
AttentionGradients attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& forward, const AttentionOptions& options = {},
                                      const BackwardOptions& backward = {});

/// Assigns (=) into caller-owned gradients: into.q, into.k, into.v must be defined (strided, innermost 1); into.mask
/// and into.sinks are written where defined (contiguous), whatever `backward` wants.
void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& into,
                        const AttentionOptions& options = {}, const BackwardOptions& backward = {});

/// Joins two partial results of the same queries over disjoint keys: out (..., L, Dv), lse and lse_low (..., L) as
/// attention() gives them -> out, lse and lse_low of all keys together. Exact but for rounding; rows that saw nothing
/// (lse -inf) add nothing. With sinks, pass them to one of the two calls only. `executor`: default_executor() when
/// null. Throws ShapeError, also where a result has no lse_low and a lse that has lost the sum (past 2^13 in float32).
AttentionResult merge(const AttentionResult& a, const AttentionResult& b, Executor* executor = nullptr);

/// One line: which implementation, tile sizes and SIMD target run for these shapes, and why others were refused.
/// HEED_EXPLAIN=1 prints it on standard error at each call.
std::string explain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace heed::inline v0
