// The specification: attention with sums in double that reads like its formula. The kernels are tested against it.
#pragma once

#include <vector>

#include "attention/fused.h"
#include "attention/problem.h"

namespace heed::inline v0 {

template <class T>
void reference_forward(const Forward<T>& p, Executor& executor);
/// As fused_large_lse() of fused.h.
template <class T>
void reference_large_lse(const Problem<T>& p, T* lse, T* lse_low, Executor& executor);
template <class T>
void reference_backward(const Backward<T>& p, Executor& executor);
/// As inspect() of fused.h.
template <class T>
void reference_inspect(const Inspection<T>& p, Executor& executor, std::vector<TopRow<T>>* top);

}  // namespace heed::inline v0
