// Every rule of the public call, in one place: the only thrower of shape errors.
#pragma once

#include "attention/problem.h"
#include "heed/attention.h"

namespace heed::inline v0 {

/// Offsets up to this, and windows up to twice as much, keep sums of positions within 64 bits.
inline constexpr int64_t kMostOffset = kUnlimited / 4;

/// float64 for float64 operands, float32 for the rest.
inline DType compute_dtype(const Tensor& q) { return q.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Shapes of the results.
Dims out_shape(const Sizes& s);                                         // (B, Hq, Lq, Dv), ragged (Tq, Hq, Dv)
Dims lse_shape(const Sizes& s);                                         // (B, Hq, Lq), ragged (Hq, Tq)
Dims weights_shape(const Sizes& s, const WeightsSelection& selection);  // (B, N, R, Lk), ragged (N, Tq, Lk)
inline Dims scores_shape(const Sizes& s) { return weights_shape(s, {}); }

/// Sizes of a call whose inputs and options fit each other. Throws ShapeError.
Sizes check_inputs(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options);

/// Throws ShapeError unless the caller's memory fits the outputs and overlaps no input.
void check_outputs(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
                   const AttentionOptions& options);

/// Throws ShapeError where `result` has no lse_low and the rounding of its lse may be a factor of more than 2^-11 on
/// weights. `name` is the result's in errors ("forward").
void check_lse_is_exact(const char* operation, const char* name, const AttentionResult& result);

/// Throws ShapeError unless the saved forward results and what comes from above fit, and what is wanted has a gradient.
void check_saved(const Sizes& sizes, const Tensor& q, const Tensor& grad_out, const AttentionResult& forward,
                 const AttentionOptions& options, const BackwardOptions& backward);

/// Throws ShapeError unless the caller's memory fits the gradients and overlaps nothing that is read.
void check_gradients(const Sizes& sizes, const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionResult& forward, const AttentionGradients& into, const AttentionOptions& options,
                     const BackwardOptions& backward);

}  // namespace heed::inline v0
