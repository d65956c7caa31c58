// Textbook attention with whole matrices, written apart from the library: what its tests compare against.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/philox.h"
#include "heed/attention.h"

namespace heed::test {

inline Tensor random_tensor(const Dims& shape, uint64_t seed, DType dtype = DType::f64, double scale = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  const Tensor t = Tensor::empty(shape, DType::f64);
  for (double& x : t.span<double>()) x = normal(generator);
  return t.to(dtype);
}

/// The same values in memory of another layout: rows padded by `gap`, heads inside positions (B, L, H, D).
inline Tensor strided_copy(const Tensor& t, int64_t gap = 3) {
  const Dims wide{t.size(0), t.size(2), t.size(1), t.size(3) + gap};
  const Tensor memory = Tensor::full(wide, std::numeric_limits<double>::quiet_NaN(), t.dtype());
  const Tensor view = memory.transpose(1, 2).slice(3, 0, t.size(3));
  view.copy_from(t);
  return view;
}

struct Textbook {
  Tensor out, lse, weights;  // as AttentionResult
  Tensor dq, dk, dv, dmask;  // as AttentionGradients, where a gradient was given
};

/// Sums in T, one entry and head at a time, every matrix in full. A hidden pair is skipped, not multiplied by 0.
template <class T>
Textbook textbook(const Tensor& q_any, const Tensor& k_any, const Tensor& v_any, const AttentionOptions& options,
                  const Tensor& grad_any = {}) {
  const DType dtype = dtype_of<T>();
  const Tensor q = q_any.to(dtype), k = k_any.to(dtype), v = v_any.to(dtype);
  const int64_t B = q.size(0), Hq = q.size(1), Lq = q.size(2), D = q.size(3);
  const int64_t Hkv = k.size(1), Lk = k.size(2), Dv = v.size(3);
  const T scale = static_cast<T>(options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(D)));
  const T inf = std::numeric_limits<T>::infinity();
  const auto n = [](int64_t x) { return static_cast<size_t>(x); };

  Textbook r;
  r.out = Tensor::zeros({B, Hq, Lq, Dv}, dtype);
  r.lse = Tensor::full({B, Hq, Lq}, -INFINITY, dtype);
  r.weights = Tensor::zeros({B, Hq, Lq, Lk}, dtype);
  Tensor grad, mask, dmask;
  if (grad_any.defined()) {
    grad = grad_any.to(dtype);
    r.dq = Tensor::zeros(q.shape(), dtype);
    r.dk = Tensor::zeros(k.shape(), dtype);
    r.dv = Tensor::zeros(v.shape(), dtype);
  }
  if (options.mask.defined()) {
    mask = options.mask.dtype() == DType::boolean ? options.mask : options.mask.to(dtype);
    if (grad.defined() && mask.dtype() != DType::boolean) {
      r.dmask = Tensor::zeros(mask.shape(), dtype);
      dmask = r.dmask.expand({B, Hq, Lq, Lk});
    }
    mask = mask.expand({B, Hq, Lq, Lk});
  }
  const PhiloxCounter first =
      philox4x32({static_cast<uint32_t>(options.stream), static_cast<uint32_t>(options.stream >> 32), 0x6174746Eu, 0},
                 philox_key(options.seed));

  for (int64_t b = 0; b < B; ++b) {
    int64_t length = Lk;
    if (options.key_lengths.defined()) length = static_cast<int64_t>(options.key_lengths.slice(0, b, b + 1).item());
    for (int64_t h = 0; h < Hq; ++h) {
      const int64_t hk = h * Hkv / Hq;
      std::vector<char> seen(n(Lq * Lk));
      std::vector<T> P(n(Lq * Lk)), keep(n(Lq * Lk), T{1});
      for (int64_t i = 0; i < Lq; ++i) {
        T max = -inf;
        for (int64_t j = 0; j < Lk; ++j) {
          bool open = j < length;
          if (options.causal == Causal::top_left) open = open && j <= i;
          if (options.causal == Causal::bottom_right) open = open && j <= i + length - Lq;
          T added = 0;
          if (mask.defined()) {
            if (mask.dtype() == DType::boolean) {
              open = open && mask.at<bool>(b, h, i, j);
            } else {
              added = mask.at<T>(b, h, i, j);
              open = open && added != -inf;
            }
          }
          seen[n(i * Lk + j)] = open;
          if (!open) continue;
          T s = 0;
          for (int64_t d = 0; d < D; ++d) s += q.at<T>(b, h, i, d) * k.at<T>(b, hk, j, d);
          P[n(i * Lk + j)] = s * scale + added;
          max = std::max(max, P[n(i * Lk + j)]);
          if (options.dropout > 0) {
            const PhiloxCounter draw = philox4x32(
                {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(i), static_cast<uint32_t>(b * Hq + h), 0},
                {first[0], first[1]});
            const bool kept = draw[n(j % 4)] < keep_threshold(options.dropout);
            keep[n(i * Lk + j)] = static_cast<T>(kept ? 1 / (1 - options.dropout) : 0);
          }
        }
        T sum = 0;
        for (int64_t j = 0; j < Lk; ++j)
          if (seen[n(i * Lk + j)]) sum += P[n(i * Lk + j)] = std::exp(P[n(i * Lk + j)] - max);
        if (max != -inf) r.lse.at<T>(b, h, i) = max + std::log(sum);
        for (int64_t j = 0; j < Lk; ++j) {
          if (!seen[n(i * Lk + j)]) continue;
          const T p = P[n(i * Lk + j)] /= sum;
          r.weights.at<T>(b, h, i, j) = p;
          for (int64_t d = 0; d < Dv; ++d) r.out.at<T>(b, h, i, d) += p * keep[n(i * Lk + j)] * v.at<T>(b, hk, j, d);
        }
      }
      if (!grad.defined()) continue;
      for (int64_t i = 0; i < Lq; ++i) {
        std::vector<T> dP(n(Lk));
        T mean = 0;  // sum over keys of P dP, the softmax's own gradient
        for (int64_t j = 0; j < Lk; ++j) {
          if (!seen[n(i * Lk + j)]) continue;
          for (int64_t d = 0; d < Dv; ++d) {
            dP[n(j)] += grad.at<T>(b, h, i, d) * v.at<T>(b, hk, j, d);
            r.dv.at<T>(b, hk, j, d) += P[n(i * Lk + j)] * keep[n(i * Lk + j)] * grad.at<T>(b, h, i, d);
          }
          dP[n(j)] *= keep[n(i * Lk + j)];
          mean += P[n(i * Lk + j)] * dP[n(j)];
        }
        for (int64_t j = 0; j < Lk; ++j) {
          if (!seen[n(i * Lk + j)]) continue;
          const T ds = P[n(i * Lk + j)] * (dP[n(j)] - mean);
          if (dmask.defined()) dmask.at<T>(b, h, i, j) += ds;
          for (int64_t d = 0; d < D; ++d) {
            r.dq.at<T>(b, h, i, d) += scale * ds * k.at<T>(b, hk, j, d);
            r.dk.at<T>(b, hk, j, d) += scale * ds * q.at<T>(b, h, i, d);
          }
        }
      }
    }
  }
  return r;
}

/// The largest |a - b|; infinite where one is NaN and the other is not, or infinities differ.
inline double max_error(const Tensor& a_any, const Tensor& b_any) {
  const Tensor a = a_any.to(DType::f64).contiguous(), b = b_any.to(DType::f64).contiguous();
  if (!(a.shape() == b.shape())) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::fabs(x - y);
    worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
  }
  return worst;
}

inline double max_abs(const Tensor& a_any) {
  const Tensor a = a_any.to(DType::f64).contiguous();
  double worst = 0;
  for (const double x : a.span<double>())
    if (std::isfinite(x)) worst = std::max(worst, std::fabs(x));
  return worst;
}

}  // namespace heed::test
