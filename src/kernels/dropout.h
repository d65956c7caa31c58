// Dropout whose mask is a function of (seed, stream, element): backward draws it again instead of storing it.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

/// y = x / (1 - p) where element i is kept, else 0; x may be y. Element i uses word i % 4 of Philox4x32-10 with counter
/// (i / 4, stream) and key seed, and is kept when that is below (1 - p) 2^32. The first of the n is element `first`.
/// The backward is the same call on dy.
template <class T>
void dropout_forward(const T* x, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex,
                     int64_t first = 0);

/// y = residual + dropout(x).
template <class T>
void dropout_add_forward(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream,
                         Executor& ex, int64_t first = 0);

}  // namespace heed::inline v0
