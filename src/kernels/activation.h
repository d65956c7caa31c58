// Activations of the feed-forward layer.
#pragma once

#include <cstdint>

#include "heed/executor.h"
#include "heed/kinds.h"

namespace heed::inline v0 {

template <class T>
void activation_forward(Activation kind, const T* x, T* y, int64_t n, Executor& ex);
/// dx = dy * f'(x), assigned.
template <class T>
void activation_backward(Activation kind, const T* dy, const T* x, T* dx, int64_t n, Executor& ex);

/// y = f(alpha * gate) / alpha * up (Shazeer 2020, "GLU Variants Improve Transformer", eq. 5); gate_up
/// (rows, 2 * width) holds the gate, then up; y (rows, width).
template <class T>
void gated_forward(Activation kind, const T* gate_up, T* y, int64_t rows, int64_t width, Executor& ex, T alpha = 1);
template <class T>
void gated_backward(Activation kind, const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t width,
                    Executor& ex, T alpha = 1);

}  // namespace heed::inline v0
