// The central call: softmax(scale * Q K^T + mask) V, forward and backward, fused: extra memory O(Lq + Lk) a head.
//
// B batch, Hq query heads, Hkv key/value heads (Hq a multiple of Hkv), Lq / Lk query / key length,
// D head size of q and k, Dv head size of v.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/executor.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// Which keys j a query i may see. They differ when Lq != Lk.
enum class Causal : uint8_t {
  none,
  top_left,      // j <= i
  bottom_right,  // j <= i + n - Lq, n = key_lengths[b] (Lk where there are none)
};

enum class Implementation : uint8_t {
  automatic,  // fused
  reference,  // double sums, materialises rows of scores; the specification the rest is tested against
  fused,
};

struct AttentionOptions {
  Causal causal = Causal::none;
  /// Factor on q . k; 1/sqrt(D) when absent ("Attention Is All You Need", 3.2.1).
  std::optional<double> scale{};
  /// Broadcasts to (B, Hq, Lq, Lk), aligned from the right. Boolean: true = may be attended. Floating (q's dtype):
  /// added to the scaled score, -inf hides.
  Tensor mask{};
  /// (B) int32 or int64, each in 0..Lk: keys at or past it are hidden. Absent: all Lk.
  Tensor key_lengths{};
  /// Probability of dropping a weight, in [0, 1); the kept are divided by 1 - dropout. The draw depends on
  /// (seed, stream, b, h, query, key) alone. lse and weights are those before dropout.
  double dropout = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  bool want_lse = false;      // natural log of the sum of exp of a row's scores; -inf where nothing is visible
  bool want_weights = false;  // the softmax itself, (B, Hq, Lq, Lk): the one output that is O(Lq * Lk)
  Implementation implementation = Implementation::automatic;
  Executor* executor = nullptr;  // default_executor() when null
};

struct AttentionResult {
  Tensor out;      // (B, Hq, Lq, Dv)
  Tensor lse;      // (B, Hq, Lq), defined when asked for
  Tensor weights;  // (B, Hq, Lq, Lk), defined when asked for
  operator Tensor() const { return out; }
};

/// q (B, Hq, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv), all float32 or all float64, any strides with the
/// innermost 1. A row that may see nothing gives 0 (lse -inf). A NaN or Inf in a hidden key or value reaches no output.
/// Throws ShapeError.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// Writes into caller-owned memory: `into.out` must be defined, (B, Hq, Lq, Dv), any strides with the innermost 1;
/// `into.lse` and `into.weights` are written where they are defined (contiguous) and ignored otherwise.
void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
               const AttentionOptions& options = {});

struct AttentionGradients {
  Tensor q, k, v;  // shaped like q, k, v
  Tensor mask;     // shaped like an additive mask: the sum over the dimensions it broadcasts along
};

/// Gradients of sum(grad_out * out). `forward` needs out and lse of the forward call with the same options.
/// The mask's gradient is computed when `want_mask` (then options.mask must be floating).
AttentionGradients attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& forward, const AttentionOptions& options = {},
                                      bool want_mask = false);

/// Assigns (=) into caller-owned gradients: into.q, into.k, into.v must be defined (strided, innermost 1);
/// into.mask is written where defined (contiguous).
void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& into,
                        const AttentionOptions& options = {});

/// One line: which implementation, tile sizes and SIMD target run for these shapes, and why others were refused.
/// HEED_EXPLAIN=1 prints it on standard error at each call.
std::string explain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace heed::inline v0
