#include "kernels/loss.h"

#include <algorithm>
#include <vector>

#include "kernels/chunks.h"
#include "kernels/softmax.h"

namespace heed::inline v0 {
template <class T>
LossSum cross_entropy_forward(const T* logits, const int32_t* targets, int32_t ignore_index, double label_smoothing,
                              RowLogSum<T>* log_sums, int64_t rows, int64_t vocab, Executor& ex) {
  std::vector<LossSum> each(static_cast<size_t>(rows));
  for_rows(rows, vocab, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = logits + row * vocab;
      double sum = 0;
      const RowLogSum<T> whole = log_sums[row] = log_sum_exp<T>(x, vocab, &sum);
      if (targets[row] == ignore_index) continue;
      const auto log = static_cast<double>(whole.log);
      const double nll = log + (static_cast<double>(whole.top) - static_cast<double>(x[targets[row]]));
      const double mean = log - sum / static_cast<double>(vocab);
      each[static_cast<size_t>(row)] = {
          label_smoothing > 0 ? (1 - label_smoothing) * nll + label_smoothing * mean : nll, nll, 1};
    }
  });
  LossSum total;
  for (const LossSum& row : each) {
    total.loss += row.loss;
    total.nll += row.nll;
    total.count += row.count;
  }
  return total;
}

template <class T>
void cross_entropy_backward(const T* logits, const int32_t* targets, int32_t ignore_index, double label_smoothing,
                            const RowLogSum<T>* log_sums, T scale, T* dlogits, int64_t rows, int64_t vocab,
                            Executor& ex) {
  const T uniform = static_cast<T>(label_smoothing / static_cast<double>(vocab));
  const T on_target = scale * static_cast<T>(1 - label_smoothing);
  for_rows(rows, vocab, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* d = dlogits + row * vocab;
      if (targets[row] == ignore_index) {
        std::fill(d, d + vocab, T{0});
        continue;
      }
      scaled_exp<T>(logits + row * vocab, log_sums[row], uniform, scale, d, vocab);
      d[targets[row]] -= on_target;
    }
  });
}

template <class T>
double nll_forward(const T* log_p, const int32_t* targets, const T* weight, int32_t ignore_index,
                   double label_smoothing, T* losses, int64_t rows, int64_t vocab, Executor& ex) {
  const auto weight_of = [&](int64_t j) { return weight ? static_cast<double>(weight[j]) : 1; };
  for_rows(rows, label_smoothing > 0 ? vocab : 1, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = log_p + row * vocab;
      const int32_t target = targets[row];
      losses[row] = 0;
      if (target == ignore_index) continue;
      double all = 0;
      for (int64_t j = 0; label_smoothing > 0 && j < vocab; ++j) all -= weight_of(j) * static_cast<double>(x[j]);
      const double nll = -weight_of(target) * static_cast<double>(x[target]);
      losses[row] = static_cast<T>((1 - label_smoothing) * nll + label_smoothing * all / static_cast<double>(vocab));
    }
  });
  double total = 0;
  for (int64_t row = 0; row < rows; ++row)
    if (targets[row] != ignore_index) total += weight_of(targets[row]);
  return total;
}

template <class T>
void nll_backward(const T* dlosses, int64_t stride, const int32_t* targets, const T* weight, int32_t ignore_index,
                  double label_smoothing, T* dlog_p, int64_t rows, int64_t vocab, Executor& ex) {
  const T on_target = static_cast<T>(1 - label_smoothing);
  const T uniform = static_cast<T>(label_smoothing / static_cast<double>(vocab));
  const auto weight_of = [&](int64_t j) { return weight ? weight[j] : T{1}; };
  for_rows(rows, vocab, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* d = dlog_p + row * vocab;
      std::fill(d, d + vocab, T{0});
      const int32_t target = targets[row];
      if (target == ignore_index) continue;
      const T factor = -dlosses[row * stride];
      for (int64_t j = 0; uniform > 0 && j < vocab; ++j) d[j] = factor * uniform * weight_of(j);
      d[target] += factor * on_target * weight_of(target);
    }
  });
}

#define HEED_LOSS(T)                                                                                                   \
  template LossSum cross_entropy_forward(const T*, const int32_t*, int32_t, double, RowLogSum<T>*, int64_t, int64_t,   \
                                         Executor&);                                                                   \
  template void cross_entropy_backward(const T*, const int32_t*, int32_t, double, const RowLogSum<T>*, T, T*, int64_t, \
                                       int64_t, Executor&);                                                            \
  template double nll_forward(const T*, const int32_t*, const T*, int32_t, double, T*, int64_t, int64_t, Executor&);   \
  template void nll_backward(const T*, int64_t, const int32_t*, const T*, int32_t, double, T*, int64_t, int64_t,       \
                             Executor&);
HEED_LOSS(float)
HEED_LOSS(double)
#undef HEED_LOSS

}  // namespace heed::inline v0
