// Every rule of the public call, in one place: the only thrower of shape errors.
#pragma once

#include "attention/problem.h"
#include "heed/attention.h"

namespace heed::inline v0 {

/// Sizes of a call whose inputs and options fit each other. Throws ShapeError.
Sizes check_inputs(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options);

/// Throws ShapeError unless the caller's memory fits the outputs and overlaps no input.
void check_outputs(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
                   const AttentionOptions& options);

/// Throws ShapeError unless the saved forward results fit.
void check_saved(const Sizes& sizes, const Tensor& q, const Tensor& grad_out, const AttentionResult& forward);

/// Throws ShapeError unless the mask has a gradient.
void check_mask_gradient(const AttentionOptions& options);

/// Throws ShapeError unless the caller's memory fits the gradients and overlaps nothing that is read.
void check_gradients(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionResult& forward, const AttentionGradients& into, const AttentionOptions& options);

}  // namespace heed::inline v0
