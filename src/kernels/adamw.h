// The optimiser's pass over a flat arena.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

struct AdamWOptions {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
};

/// One step of AdamW (Loshchilov and Hutter 2019, algorithm 2) number `step`, from 1, over n values with gradients
/// times gradient_scale; m and v are the running means of the gradients and of their squares.
template <class T>
void adamw_step(T* parameters, const T* gradients, T* m, T* v, int64_t n, int64_t step, const AdamWOptions& options,
                T gradient_scale, Executor& ex);

}  // namespace heed::inline v0
