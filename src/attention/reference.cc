#include "attention/reference.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/dropout.h"

namespace heed::inline v0 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class A, class B>
double dot(const A* a, const B* b, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  return sum;
}

/// scale * q_i . k_j + mask_ij, -inf where key j is hidden from query i.
template <class T>
double score(const Problem<T>& p, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!p.visible(b, h, i, j)) return -kInfinity;
  return p.scale * dot(p.q.at(b, h, i), p.k.at(b, h / p.group(), j), p.D) + p.bias(b, h, i, j);
}

/// softmax(scores) V for one row; scores (Lk) is scratch.
template <class T>
void forward_row(const Forward<T>& p, const Dropout& dropout, int64_t b, int64_t h, int64_t i, double* scores,
                 double* out) {
  const int64_t head = b * p.Hq + h;
  int64_t end = p.key_end(b, i);
  double max = -kInfinity;
  for (int64_t j = 0; j < end; ++j) {
    scores[j] = score(p, b, h, i, j);
    if (!(scores[j] <= max)) max = scores[j];  // a NaN becomes the maximum, and stays
    if (std::isnan(max)) break;
  }
  if (max == -kInfinity) end = 0;  // nothing to attend to
  double sum = 0;
  for (int64_t j = 0; j < end; ++j) sum += std::exp(scores[j] - max);
  if (std::isnan(max)) sum = max;

  std::fill_n(out, p.Dv, 0.0);
  T* const weights = p.weights ? p.weights + (head * p.Lq + i) * p.Lk : nullptr;  // (Lk)
  if (weights) std::fill_n(weights, p.Lk, T{0});
  for (int64_t j = 0; j < end; ++j) {
    if (!p.visible(b, h, i, j)) continue;  // 0 * NaN would be NaN
    const double weight = std::isnan(sum) ? sum : std::exp(scores[j] - max) / sum;
    if (weights) weights[j] = static_cast<T>(weight);
    const double kept = p.dropout > 0 ? weight * dropout_factor(dropout, head, i, j) : weight;
    const T* const v = p.v.at(b, h / p.group(), j);
    for (int64_t d = 0; d < p.Dv; ++d) out[d] += kept * static_cast<double>(v[d]);
  }
  for (int64_t d = 0; d < p.Dv; ++d) p.out.at(b, h, i)[d] = static_cast<T>(out[d]);
  if (p.lse) p.lse[head * p.Lq + i] = static_cast<T>(max == -kInfinity ? max : max + std::log(sum));
}

/// d loss / d score for the pair (i, j), and the weight after dropout. Visible pairs only.
template <class T>
struct Pair {
  double dscore, kept;
  Pair(const Backward<T>& p, const Dropout& dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t head = b * p.Hq + h;
    const auto lse = static_cast<double>(p.lse[head * p.Lq + i]);
    const double weight = lse == -kInfinity ? 0 : std::exp(score(p, b, h, i, j) - lse);
    const double factor = p.dropout > 0 ? dropout_factor(dropout, head, i, j) : 1;
    const T* const grad = p.grad_out.at(b, h, i);
    const double dkept = dot(grad, p.v.at(b, h / p.group(), j), p.Dv);
    dscore = weight * (dkept * factor - dot(grad, p.out.at(b, h, i), p.Dv));
    kept = weight * factor;
  }
};

/// The mask's gradient is the score's, summed over the dimensions along which the mask is broadcast.
template <class T>
void mask_gradient(const Backward<T>& p) {
  const Dropout dropout = dropout_of(p);
  int64_t size = 1;
  for (const int64_t n : p.mask_sizes) size *= n;
  std::vector<double> sum(static_cast<size_t>(size), 0.0);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.Hq; ++h)
      for (int64_t i = 0; i < p.Lq; ++i)
        for (int64_t j = 0; j < p.key_end(b, i); ++j)
          if (p.visible(b, h, i, j))
            sum[static_cast<size_t>(p.dmask_offset(b, h, i, j))] += Pair<T>(p, dropout, b, h, i, j).dscore;
  std::transform(sum.begin(), sum.end(), p.dmask, [](double x) { return static_cast<T>(x); });
}

}  // namespace

template <class T>
void reference_forward(const Forward<T>& p, Executor& executor) {
  const Dropout dropout = dropout_of(p);
  parallel_for(executor, p.B * p.Hq, [&](int64_t head) {
    std::vector<double> scores(static_cast<size_t>(p.Lk)), out(static_cast<size_t>(p.Dv));
    for (int64_t i = 0; i < p.Lq; ++i) forward_row(p, dropout, head / p.Hq, head % p.Hq, i, scores.data(), out.data());
  });
}

template <class T>
void reference_backward_keys(const Backward<T>& p, int64_t b, int64_t hkv, int64_t begin, int64_t end, double* dq) {
  const Dropout dropout = dropout_of(p);
  std::vector<double> dk(static_cast<size_t>(p.D)), dv(static_cast<size_t>(p.Dv));
  for (int64_t j = begin; j < end; ++j) {
    std::fill(dk.begin(), dk.end(), 0.0);
    std::fill(dv.begin(), dv.end(), 0.0);
    for (int64_t g = 0; g < p.group(); ++g) {
      const int64_t h = hkv * p.group() + g;
      for (int64_t i = 0; i < p.Lq; ++i) {
        if (!p.visible(b, h, i, j)) continue;
        const Pair<T> pair(p, dropout, b, h, i, j);
        const T *const q = p.q.at(b, h, i), *const k = p.k.at(b, hkv, j), *const grad = p.grad_out.at(b, h, i);
        double* const dq_row = dq + (g * p.Lq + i) * p.D;  // (D)
        for (int64_t d = 0; d < p.Dv; ++d) dv[static_cast<size_t>(d)] += pair.kept * static_cast<double>(grad[d]);
        for (int64_t d = 0; d < p.D; ++d) {
          dk[static_cast<size_t>(d)] += p.scale * pair.dscore * static_cast<double>(q[d]);
          dq_row[d] += p.scale * pair.dscore * static_cast<double>(k[d]);
        }
      }
    }
    for (int64_t d = 0; d < p.D; ++d) p.dk.at(b, hkv, j)[d] = static_cast<T>(dk[static_cast<size_t>(d)]);
    for (int64_t d = 0; d < p.Dv; ++d) p.dv.at(b, hkv, j)[d] = static_cast<T>(dv[static_cast<size_t>(d)]);
  }
}

template <class T>
void reference_backward(const Backward<T>& p, Executor& executor) {
  parallel_for(executor, p.B * p.Hkv, [&](int64_t head) {
    const int64_t b = head / p.Hkv, hkv = head % p.Hkv;
    std::vector<double> dq(static_cast<size_t>(p.group() * p.Lq * p.D), 0.0);  // (Hq/Hkv, Lq, D)
    reference_backward_keys(p, b, hkv, 0, p.Lk, dq.data());
    for (int64_t r = 0; r < p.group() * p.Lq; ++r)
      for (int64_t d = 0; d < p.D; ++d)
        p.dq.at(b, hkv * p.group() + r / p.Lq, r % p.Lq)[d] = static_cast<T>(dq[static_cast<size_t>(r * p.D + d)]);
  });
  if (p.dmask) mask_gradient(p);
}

template void reference_forward(const Forward<float>&, Executor&);
template void reference_forward(const Forward<double>&, Executor&);
template void reference_backward(const Backward<float>&, Executor&);
template void reference_backward(const Backward<double>&, Executor&);
template void reference_backward_keys(const Backward<float>&, int64_t, int64_t, int64_t, int64_t, double*);
template void reference_backward_keys(const Backward<double>&, int64_t, int64_t, int64_t, int64_t, double*);

}  // namespace heed::inline v0
