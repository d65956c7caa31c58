// Attention and its backward as a pair of functions.
#pragma once

#include <functional>

#include "heed/attention.h"

namespace heed::inline v0 {

/// Who computes attention() and attention_backward() instead, alike: over ranks that have the other rows, for one
/// (mpi::attention_operator).
struct AttentionOperator {
  std::function<AttentionResult(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options)>
      forward;
  std::function<AttentionGradients(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionResult& forward, const AttentionOptions& options)>
      backward;
};

}  // namespace heed::inline v0
