// Normalisation of rows. Statistics of a row are saved by forward for backward.
#pragma once

#include <cstdint>

#include "heed/executor.h"

namespace heed::inline v0 {

/// y = (x - mean) * rstd * gamma + beta, rstd = 1 / sqrt(var + epsilon), var over the width (Ba et al. 2016, eq. 4).
/// x, y (rows, width); gamma, beta (width) or null; mean, rstd (rows).
template <class T>
void layer_norm_forward(const T* x, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* rstd, int64_t rows,
                        int64_t width, Executor& ex);
/// dx is assigned, dgamma and dbeta are added to; null outputs are skipped.
template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd, T* dx, T* dgamma,
                         T* dbeta, int64_t rows, int64_t width, Executor& ex);

/// y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019, eq. 4).
template <class T>
void rms_norm_forward(const T* x, const T* gamma, T epsilon, T* y, T* rstd, int64_t rows, int64_t width, Executor& ex);
template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* gamma, const T* rstd, T* dx, T* dgamma, int64_t rows,
                       int64_t width, Executor& ex);

}  // namespace heed::inline v0
