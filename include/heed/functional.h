// The coarse operations of the tape. Each calls one forward/backward pair of kernels; none materialises Lq x Lk.
// Names and conventions follow torch.nn.functional where it has them. float32 or float64, one dtype a call.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/attention_operator.h"
#include "heed/autograd.h"
#include "heed/kinds.h"
#include "heed/rotary.h"
#include "heed/split.h"

namespace heed::inline v0 {

namespace functional {

/// x (..., in) times weight (out, in) transposed, plus bias (out). Under NoGrad the weight of a float32 x may be
/// float16 or bfloat16: sums are in float32.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});
/// Elements [begin, end).
struct Span {
  int64_t begin, end;
};
/// linear() with some rows of a packed weight, and as many elements of a bias: one parameter serves several products.
Variable linear_slice(const Variable& x, const Variable& weight, Span rows, const Variable& bias, Span of_bias);
/// max(0, linear(x, weight, bias)) in one pass, forward and backward.
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias = {});

Variable add(const Variable& a, const Variable& b);       // same shape
Variable multiply(const Variable& a, const Variable& b);  // same shape
Variable scale(const Variable& x, double factor);
Variable sum(const Variable& x);  // all elements, () shaped
Variable reshape(const Variable& x, const Dims& shape);
/// Concatenates the parts along dimension `dim`. Throws ShapeError if the other sizes differ.
Variable concatenate(const std::vector<Variable>& parts, int dim);

Variable activation(Activation kind, const Variable& x);
inline Variable relu(const Variable& x) { return activation(Activation::relu, x); }
inline Variable gelu(const Variable& x) { return activation(Activation::gelu, x); }
inline Variable silu(const Variable& x) { return activation(Activation::silu, x); }
inline Variable tanh(const Variable& x) { return activation(Activation::tanh, x); }
/// cap * tanh(x / cap): near x for small ones, never beyond +-cap (Gemma 2, arXiv 2408.00118, 2).
inline Variable softcap(const Variable& x, double cap) { return scale(tanh(scale(x, 1 / cap)), cap); }
/// activation(alpha * gate) / alpha * up for gate_up (..., 2 * width) = gate, then up. Shazeer 2020, "GLU Variants
/// Improve Transformer", eq. 5 (with alpha 1). Throws ShapeError where alpha or 1 / alpha is not finite in the dtype,
/// or the last dimension odd.
Variable gated(Activation kind, const Variable& gate_up, double alpha = 1);
inline Variable swiglu(const Variable& gate_up, double alpha = 1) { return gated(Activation::silu, gate_up, alpha); }
/// The clamping of gpt-oss before gated, for gate_up (..., 2 * width) = gate, then up: min(gate, limit), and 1 + up
/// clamped to -limit..limit. Throws ShapeError for a limit that is not above 0, or an odd last dimension.
Variable bounded_gate(const Variable& gate_up, double limit);

/// Over the last dimension. Ba et al. 2016, eq. 4; weight and bias (width) may be undefined.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double epsilon = 1e-5);
/// x / sqrt(mean(x^2) + epsilon) * weight. Zhang and Sennrich 2019, eq. 4.
Variable rms_norm(const Variable& x, const Variable& weight, double epsilon = 1e-5);

Variable softmax(const Variable& x);      // over the last dimension
Variable log_softmax(const Variable& x);  // over the last dimension

/// ids (...) int32 in [0, vocabulary) -> (..., width), times `factor`. Throws ShapeError on an id out of range. Under
/// NoGrad a float16 or bfloat16 weight gives float32. The row of `padding_id` gets no gradient (torch's padding_idx).
Variable embedding(const Tensor& ids, const Variable& weight, double factor = 1, int32_t padding_id = -1);

/// Sequences split over ranks: the rows that `rank` has, and the attention over the rows of all ranks.
struct SplitRows {
  Split split;
  int rank = 0;
  AttentionOperator attention{};
};

/// Zeroes each element with probability p and divides the rest by 1 - p; itself when p is 0. Takes one stream of
/// default_generator(). Where x (B, own rows, width) is `rows` of a whole, it is treated as that would be.
Variable dropout(const Variable& x, double p, const SplitRows* rows = nullptr);
/// residual + dropout(x, p, rows) in one pass.
Variable dropout_add(const Variable& x, const Variable& residual, double p, const SplitRows* rows = nullptr);

/// Rotates the first `heads` heads of every row of x (B, L, heads' * head_size), heads' >= heads, by position;
/// the rest is copied. Su et al. 2021, "RoFormer", 3.2.2.
Variable rotary(const Variable& x, int64_t heads, int64_t head_size, const Rotary& options = {});

/// heed::attention on the tape. q (B, Hq, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv). An additive mask given as
/// `learned_mask` gets a gradient. options.dropout takes its seed and stream from default_generator().
Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      AttentionOptions options = {}, const Variable& learned_mask = {});

/// Heads packed in the last dimension of a projection: head h of row (b, l) is x[b, l, offset + h * size ...].
struct PackedHeads {
  Variable x;  // (B, L, width)
  int64_t offset = 0, heads = 1, size = 1;
};
/// Attention straight from packed projections, nothing transposed: -> (B, Lq, q.heads * v.size).
/// `weights`, when not null, receives (B, Hq, Lq, Lk), or what options.selection leaves of it (its top_p must be 1).
/// With options.q_offsets and k_offsets every x is (1, T, width), its T rows those of a ragged batch; no weights then.
/// With `rows` every x has these of a whole, and `options` are the whole's; no weights then, either, and no
/// `learned_mask`, which is as above, nor `learned_sinks`, which are options.sinks with a gradient.
Variable packed_attention(const PackedHeads& q, const PackedHeads& k, const PackedHeads& v,
                          AttentionOptions options = {}, Tensor* weights = nullptr, const SplitRows* rows = nullptr,
                          const Variable& learned_mask = {}, const Variable& learned_sinks = {});

/// x (B, L, H * D), the columns of head h times factors[h]; factors (H). Throws ShapeError.
Variable scale_heads(const Variable& x, const Variable& factors);

/// The mask (1, H, queries, keys) that adds to a score what `weight` (buckets, H) has for the distance of its key from
/// its query: half of the buckets a single distance each, the others ever more of them, up to max_distance (Raffel et
/// al. 2020, "Exploring the Limits of Transfer Learning", 2.1; T5's code). `both_ways`: half of all buckets are for
/// keys behind the query; else those share the first one. Query i stands at position first_query + i, key j at j.
/// Throws ShapeError for an odd or too small number of buckets, or a max_distance that leaves none for the long ones.
Variable relative_position_bias(const Variable& weight, int64_t queries, int64_t keys, bool both_ways,
                                int64_t max_distance = 128, int64_t first_query = 0);

/// How the losses of rows are combined. mean divides by the number of counted rows, or by the sum of their targets'
/// weights.
enum class Reduction : uint8_t { mean, sum, none };

struct CrossEntropyOptions {
  int32_t ignore_index = -100;
  double label_smoothing = 0;  // (1 - e) nll + e / V sum_j -log p_j
  /// (V), the dtype of the logits: a factor on the term of each class. Absent: 1.
  Tensor weight{};
  Reduction reduction = Reduction::mean;
  /// R-Drop's alpha (Liang et al. 2021), for linear_cross_entropy only. Above 0, the second half of the rows repeats
  /// the first half with other dropout: targets i and i + rows / 2 are equal, and the loss of both rows includes r_drop
  /// / 2 times the divergence (KL(p||p') + KL(p'||p)) / 2 of their distributions.
  double r_drop = 0;
};
/// Parts of a loss for logs: sums over the counted targets.
struct LossParts {
  double loss = 0, nll = 0;
  int64_t count = 0;
};
/// Cross-entropy of logits (rows, V) and targets (rows) int32. Rows whose target is ignore_index are ignored. Returns
/// the mean, shape (), or 0 if all rows are ignored. With Reduction::none: the shape of targets, 0 in ignored rows.
/// `parts` needs a mean without weights.
Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                       LossParts* parts = nullptr);
/// cross_entropy() for rows that already are log-probabilities.
Variable nll_loss(const Variable& log_probabilities, const Tensor& targets, const CrossEntropyOptions& options = {});
/// cross_entropy(linear(x, weight, bias)) without the (rows, V) logits: rows go through in chunks. The mean, without
/// weights of classes.
Variable linear_cross_entropy(const Variable& x, const Variable& weight, const Variable& bias, const Tensor& targets,
                              const CrossEntropyOptions& options = {}, LossParts* parts = nullptr);

}  // namespace functional
}  // namespace heed::inline v0
