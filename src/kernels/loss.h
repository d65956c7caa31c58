// Cross-entropy, with the output projection fused in where the logits would be large.
#pragma once

#include <cstdint>

#include "heed/executor.h"
#include "kernels/softmax.h"

namespace heed::inline v0 {

/// Sums over the rows that count: the loss with label smoothing, and the plain negative log-likelihood.
struct LossSum {
  double loss = 0;
  double nll = 0;
  int64_t count = 0;
};

/// A row's loss is (1 - s) nll + s / vocab * sum_j -log p_j (Szegedy et al. 2016, section 7). logits (rows, vocab),
/// targets (rows); rows whose target is ignore_index count nothing; log_sums (rows) are saved for backward.
template <class T>
LossSum cross_entropy_forward(const T* logits, const int32_t* targets, int32_t ignore_index, double label_smoothing,
                              RowLogSum<T>* log_sums, int64_t rows, int64_t vocab, Executor& ex);
/// dlogits (rows, vocab) is assigned: `scale` times the gradient of the sum; 0 in ignored rows. May be `logits`.
template <class T>
void cross_entropy_backward(const T* logits, const int32_t* targets, int32_t ignore_index, double label_smoothing,
                            const RowLogSum<T>* log_sums, T scale, T* dlogits, int64_t rows, int64_t vocab,
                            Executor& ex);

/// cross_entropy of x W^T + bias, x (rows, in), w (vocab, in), without a (rows, vocab) buffer: rows go through in
/// chunks, and the gradients are made while a chunk's logits are at hand. dx is assigned, dw and dbias are added to,
/// all times gradient_scale; null outputs are skipped. With r_drop above 0, rows i and i + rows / 2 are twins: of
/// one target, and each has r_drop / 2 times their divergence (KL(p||p') + KL(p'||p)) / 2 in its loss (R-Drop,
/// Liang et al. 2021, eq. 4).
template <class T>
LossSum linear_cross_entropy(const T* x, const T* w, const T* bias, const int32_t* targets, int32_t ignore_index,
                             double label_smoothing, double r_drop, T* dx, T* dw, T* dbias, T gradient_scale,
                             int64_t rows, int64_t in, int64_t vocab, Executor& ex);

/// The loss of rows that already are logarithms of probabilities: log_p (rows, vocab), weight (vocab) of each class or
/// null for 1. losses (rows) = (1 - s) weight[t] nll + s / vocab * sum_j -weight[j] log p_j, 0 where t is ignore_index.
/// Returns the sum of weight[t] over the rows that count: what a mean divides by.
template <class T>
double nll_forward(const T* log_p, const int32_t* targets, const T* weight, int32_t ignore_index,
                   double label_smoothing, T* losses, int64_t rows, int64_t vocab, Executor& ex);
/// dlog_p (rows, vocab) is assigned: the gradient of sum over rows of dlosses[row * stride] * losses[row].
template <class T>
void nll_backward(const T* dlosses, int64_t stride, const int32_t* targets, const T* weight, int32_t ignore_index,
                  double label_smoothing, T* dlog_p, int64_t rows, int64_t vocab, Executor& ex);

}  // namespace heed::inline v0
