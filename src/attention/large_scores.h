// Rows whose scores or masks are large, and softmax in double of the sums of score and mask as the compute type has
// them. Scores are small integers, which every type and every order of summing has exactly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attention/testing.h"

namespace heed::test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Numbers that programs write to hide a key, and powers of ten up to the largest number.
template <class T>
std::vector<double> magnitudes() {
  std::vector<double> all{0,    1,    1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  2147483648.0, 4294967295, 3e9,
                          1e10, 9e15, 1e18, 1e20, 1e24, 1e30, 1e32, 1e37, 1e38, 2e38,         3e38,       3.4e38};
  if constexpr (std::is_same_v<T, double>)
    for (const double x : {1e15, 1e100, 1e300, 1e308, 1.25e308, 1.7e308}) all.push_back(x);
  all.push_back(static_cast<double>(std::numeric_limits<T>::max()));
  return all;
}

/// Small integers.
inline Tensor integers(const Dims& shape, uint64_t seed, DType dtype) {
  const Tensor t = random_tensor(shape, seed);
  for (double& x : t.span<double>()) x = std::clamp(std::round(x), -2.0, 2.0);
  return t.to(dtype);
}

/// One entry: q (1, H, Lq, D), k (1, H, Lk, D), v (1, H, Lk, Dv), mask (Lq, Lk) in T, scale 1.
struct LargeScoresExample {
  Tensor q, k, v, grad, grad_lse, mask;
  std::optional<Tensor> sinks{};
  AttentionOptions options() const {
    AttentionOptions o{.scale = 1, .mask = mask, .want_lse = true, .want_weights = true};
    if (sinks) o.sinks = *sinks;
    return o;
  }
  /// Queries [begin, end).
  LargeScoresExample rows(int64_t begin, int64_t end) const {
    LargeScoresExample e = *this;
    for (Tensor* t : {&e.q, &e.grad, &e.grad_lse}) *t = t->slice(2, begin, end).contiguous();
    e.mask = mask.slice(0, begin, end).contiguous();
    return e;
  }
  /// Keys [begin, end).
  LargeScoresExample keys(int64_t begin, int64_t end) const {
    LargeScoresExample e = *this;
    for (Tensor* t : {&e.k, &e.v}) *t = t->slice(2, begin, end).contiguous();
    e.mask = mask.slice(1, begin, end).contiguous();
    return e;
  }
};

/// Row 2 n of the mask is all x, row 2 n + 1 all -x, for every magnitude x; then rows of two kinds of keys.
template <class T>
LargeScoresExample large_scores_example(int64_t Lk, DType storage, uint64_t seed) {
  const std::vector<double> all = magnitudes<T>();
  constexpr int64_t kMixed = 12;
  const int64_t H = 2, D = 4, Dv = 5, whole = 2 * std::ssize(all), Lq = whole + kMixed;
  LargeScoresExample e;
  e.q = integers({1, H, Lq, D}, seed, storage), e.k = integers({1, H, Lk, D}, seed + 1, storage);
  e.v = integers({1, H, Lk, Dv}, seed + 2, storage), e.grad = integers({1, H, Lq, Dv}, seed + 3, storage);
  e.grad_lse = random_tensor({1, H, Lq}, seed + 4, dtype_of<T>());
  e.mask = Tensor::empty({Lq, Lk}, dtype_of<T>());
  const std::array<std::pair<double, double>, kMixed> mixed{{{-1e9, 0},
                                                             {-1e9, -1e9 - 64},
                                                             {-1e4, -1e4 - 1},
                                                             {-1e20, -1e9},
                                                             {-1e30, -kInf},
                                                             {-1e3, -kInf},
                                                             {1e9, 0},
                                                             {1e9, 1e9 + 64},
                                                             {1e4, 1e4 + 1},
                                                             {3e38, -3e38},
                                                             {1e20, -kInf},
                                                             {-kInf, -kInf}}};
  for (int64_t i = 0; i < Lq; ++i)
    for (int64_t j = 0; j < Lk; ++j) {
      const auto n = static_cast<size_t>(i - whole);
      const double added = i < whole    ? (i % 2 ? -1 : 1) * all[static_cast<size_t>(i / 2)]
                           : j % 3 == 0 ? mixed[n].second
                                        : mixed[n].first;
      e.mask.at<T>(i, j) = static_cast<T>(added);
    }
  return e;
}

/// The formulas, in double, of sums in T.
template <class T>
struct Formula {
  Tensor out, lse, top, log, weights, dq, dk, dv, dmask, dsinks;  // lse = top, the row's largest sum, + log

  explicit Formula(const LargeScoresExample& e) {
    const auto wide = [](const Tensor& t) { return t.to(DType::f64).contiguous(); };
    const Tensor q = wide(e.q), k = wide(e.k), v = wide(e.v), grad = wide(e.grad), grad_lse = wide(e.grad_lse);
    const int64_t H = q.size(1), Lq = q.size(2), Lk = k.size(2), D = q.size(3), Dv = v.size(3);
    const auto zeros = [](const Dims& shape) { return Tensor::zeros(shape, DType::f64); };
    out = zeros(grad.shape()), lse = zeros({1, H, Lq}), top = zeros({1, H, Lq}), log = zeros({1, H, Lq}),
    weights = zeros({1, H, Lq, Lk});
    dq = zeros(q.shape()), dk = zeros(k.shape()), dv = zeros(v.shape()), dmask = zeros({Lq, Lk}), dsinks = zeros({H});
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < Lq; ++i) {
        const double sink = e.sinks ? wide(*e.sinks).template at<double>(h) : -kInf;
        std::vector<double> sums;
        double most = sink;
        for (int64_t j = 0; j < Lk; ++j) {
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += q.at<double>(0, h, i, d) * k.at<double>(0, h, j, d);
          const T sum = static_cast<T>(score) + e.mask.at<T>(i, j);
          sums.push_back(static_cast<double>(sum));
          most = std::max(most, sums.back());
        }
        lse.at<double>(0, h, i) = -kInf;
        if (most == -kInf) continue;
        top.at<double>(0, h, i) = most;
        double total = std::exp(sink - most);
        for (const double sum : sums) total += std::exp(sum - most);
        log.at<double>(0, h, i) = std::log(total);
        lse.at<double>(0, h, i) = most + std::log(total);
        double mean = -grad_lse.at<double>(0, h, i);
        std::vector<double> of_weights;
        for (int64_t j = 0; j < Lk; ++j) {
          const double w = std::exp(sums[static_cast<size_t>(j)] - most) / total;
          weights.at<double>(0, h, i, j) = w;
          double of_weight = 0;
          for (int64_t d = 0; d < Dv; ++d) {
            out.at<double>(0, h, i, d) += w * v.at<double>(0, h, j, d);
            dv.at<double>(0, h, j, d) += w * grad.at<double>(0, h, i, d);
            of_weight += grad.at<double>(0, h, i, d) * v.at<double>(0, h, j, d);
          }
          of_weights.push_back(of_weight);
          mean += w * of_weight;
        }
        dsinks.at<double>(h) -= std::exp(sink - most) / total * mean;
        for (int64_t j = 0; j < Lk; ++j) {
          const double ds = weights.at<double>(0, h, i, j) * (of_weights[static_cast<size_t>(j)] - mean);
          dmask.at<double>(i, j) += ds;
          for (int64_t d = 0; d < D; ++d) {
            dq.at<double>(0, h, i, d) += ds * k.at<double>(0, h, j, d);
            dk.at<double>(0, h, j, d) += ds * q.at<double>(0, h, i, d);
          }
        }
      }
  }
};

/// The bound of ordinary rows: `error` beside numbers of at most `largest`, in a type that is computed, or kept, with
/// this epsilon.
inline double bound(const Tensor& exact, double epsilon) { return 16 * epsilon * (1 + max_abs(exact)); }

inline void expect_near(const char* name, const Tensor& value, const Tensor& exact, DType kept,
                        const std::string& what) {
  EXPECT_LE(max_error(value, exact), bound(exact, epsilon(kept))) << name << ", " << what;
}

}  // namespace heed::test
