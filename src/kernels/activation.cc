#include "kernels/activation.h"

#include <cmath>
#include <numbers>

#include "kernels/chunks.h"

namespace heed::inline v0 {
namespace {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

// tanh approximation of GELU: sqrt(2/pi) (x + 0.044715 x^3), Hendrycks and Gimpel 2016.
template <class T>
T inner(T x) {
  return static_cast<T>(0.7978845608028654) * (x + static_cast<T>(0.044715) * x * x * x);
}

template <class T>
T value(Activation kind, T x) {
  switch (kind) {
    case Activation::relu:
      return x > 0 ? x : T{0};
    case Activation::gelu:
      return x * T{0.5} * (T{1} + std::erf(x * static_cast<T>(1 / std::numbers::sqrt2)));
    case Activation::gelu_tanh:
      return T{0.5} * x * (T{1} + std::tanh(inner(x)));
    case Activation::silu:
      return x * sigmoid(x);
  }
  return x;
}

template <class T>
T derivative(Activation kind, T x) {
  switch (kind) {
    case Activation::relu:
      return x > 0 ? T{1} : T{0};
    case Activation::gelu: {
      const T density = std::exp(T{-0.5} * x * x) * static_cast<T>(0.3989422804014327);  // 1 / sqrt(2 pi)
      return T{0.5} * (T{1} + std::erf(x * static_cast<T>(1 / std::numbers::sqrt2))) + x * density;
    }
    case Activation::gelu_tanh: {
      const T t = std::tanh(inner(x));
      const T slope = static_cast<T>(0.7978845608028654) * (T{1} + 3 * static_cast<T>(0.044715) * x * x);
      return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * slope;
    }
    case Activation::silu: {
      const T s = sigmoid(x);
      return s * (T{1} + x * (T{1} - s));
    }
  }
  return T{1};
}

// The kind is a template parameter inside the loops, so that ReLU vectorises.
template <class F>
void with_kind(Activation kind, F&& f) {
  switch (kind) {
    case Activation::relu:
      return f(std::integral_constant<Activation, Activation::relu>{});
    case Activation::gelu:
      return f(std::integral_constant<Activation, Activation::gelu>{});
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>{});
    case Activation::silu:
      return f(std::integral_constant<Activation, Activation::silu>{});
  }
}

}  // namespace

template <class T>
void activation_forward(Activation kind, const T* x, T* y, int64_t n, Executor& ex) {
  with_kind(kind, [&](auto k) {
    for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = value(k(), x[i]);
    });
  });
}

template <class T>
void activation_backward(Activation kind, const T* dy, const T* x, T* dx, int64_t n, Executor& ex) {
  with_kind(kind, [&](auto k) {
    for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * derivative(k(), x[i]);
    });
  });
}

template <class T>
void swiglu_forward(const T* gate_up, T* y, int64_t rows, int64_t width, Executor& ex) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *gate = gate_up + row * 2 * width, *up = gate + width;
      for (int64_t j = 0; j < width; ++j) y[row * width + j] = gate[j] * sigmoid(gate[j]) * up[j];
    }
  });
}

template <class T>
void swiglu_backward(const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t width, Executor& ex) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *gate = gate_up + row * 2 * width, *up = gate + width, *d = dy + row * width;
      T *dgate = dgate_up + row * 2 * width, *dup = dgate + width;
      for (int64_t j = 0; j < width; ++j) {
        const T s = sigmoid(gate[j]);
        dup[j] = d[j] * gate[j] * s;
        dgate[j] = d[j] * up[j] * s * (T{1} + gate[j] * (T{1} - s));
      }
    }
  });
}

#define HEED_ACTIVATION(T)                                                                   \
  template void activation_forward(Activation, const T*, T*, int64_t, Executor&);            \
  template void activation_backward(Activation, const T*, const T*, T*, int64_t, Executor&); \
  template void swiglu_forward(const T*, T*, int64_t, int64_t, Executor&);                   \
  template void swiglu_backward(const T*, const T*, T*, int64_t, int64_t, Executor&);
HEED_ACTIVATION(float)
HEED_ACTIVATION(double)
#undef HEED_ACTIVATION

}  // namespace heed::inline v0
