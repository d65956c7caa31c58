// The specification: attention with sums in double that reads like its formula. The kernels are tested against it.
#pragma once

#include "attention/problem.h"

namespace heed::inline v0 {

template <class T>
void reference_forward(const Forward<T>& p, Executor& executor);
template <class T>
void reference_backward(const Backward<T>& p, Executor& executor);

/// Gradients that pass through keys [begin, end) of one key head: assigns those rows of dk and dv, and adds to dq
/// (Hq/Hkv, Lq, D), contiguous. Touches no pair of query and key that is hidden.
template <class T>
void reference_backward_keys(const Backward<T>& p, int64_t b, int64_t hkv, int64_t begin, int64_t end, double* dq);

}  // namespace heed::inline v0
