#include "kernels/activation.h"

#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <type_traits>

#include "simd/exp-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

// s = 1 / (1 + e^-x) and 1 - s, each to its last digits: the exponential's argument is never positive.
template <class V>
struct Sigmoid {
  template <class D>
  HWY_INLINE Sigmoid(D d, V x) {
    const V e = exp(d, hn::Neg(hn::Abs(x))), one = hn::Set(d, 1), large = hn::Div(one, hn::Add(one, e));
    const V small = hn::Mul(e, large);
    const auto negative = hn::Lt(x, hn::Zero(d));
    s = hn::IfThenElse(negative, small, large);
    rest = hn::IfThenElse(negative, large, small);
  }
  V s, rest;
};

// The normal distribution function, and its density.
template <class V>
struct Normal {
  template <class D>
  HWY_INLINE Normal(D d, V x) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 4) {
      // Of the upper tail: e^(-x^2 / 2) t P(t), t = 1 / (1 + 0.3 |x|), P fitted for relative error, 1.5e-7 up to 14.
      const V e = exp(d, hn::Mul(hn::Set(d, T{-0.5}), hn::Mul(x, x))), one = hn::Set(d, 1);
      const V t = hn::Div(one, hn::MulAdd(hn::Set(d, T{0.3}), hn::Abs(x), one));
      V p = hn::Set(d, T{0.0356748139});
      for (const double c :
           {-0.15720323, 0.206353729, -0.0536838219, 0.128561707, 0.0999134715, 0.120753959, 0.119629299})
        p = hn::MulAdd(p, t, hn::Set(d, static_cast<T>(c)));
      const V tail = hn::Mul(hn::Mul(e, t), p);
      distribution = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
      density = hn::Mul(e, hn::Set(d, static_cast<T>(kDensityAtZero)));
    } else {  // tests and references; the library's digits count for more than its speed
      HWY_ALIGN T from[hn::MaxLanes(d)], p[hn::MaxLanes(d)], q[hn::MaxLanes(d)];
      hn::Store(x, d, from);
      for (size_t i = 0; i < hn::Lanes(d); ++i) {
        p[i] = std::erfc(from[i] * -0.7071067811865476) / 2;
        q[i] = std::exp(from[i] * from[i] / -2) * kDensityAtZero;
      }
      distribution = hn::Load(d, p);
      density = hn::Load(d, q);
    }
  }
  static constexpr double kDensityAtZero = 0.3989422804014327;  // 1 / sqrt(2 pi)
  V distribution, density;
};

// GELU with tanh is x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 is a sigmoid.
constexpr double kSlope = 1.5957691216057308, kCubic = 0.044715;  // 2 sqrt(2 / pi)
constexpr double kQuick = 1.702;                                  // of quick_gelu

template <class D, class V>
HWY_INLINE V TwiceU(D d, V x) {
  using T = hn::TFromD<D>;
  const V slope = hn::Set(d, static_cast<T>(kSlope)), cubic = hn::Set(d, static_cast<T>(kSlope * kCubic));
  return hn::Mul(x, hn::MulAdd(cubic, hn::Mul(x, x), slope));
}

template <Activation kind, class D, class V>
HWY_INLINE V Value(D d, V x) {
  if constexpr (kind == Activation::relu) return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // NaN stays
  if constexpr (kind == Activation::gelu) return hn::Mul(x, Normal<V>(d, x).distribution);
  if constexpr (kind == Activation::gelu_tanh) return hn::Mul(x, Sigmoid<V>(d, TwiceU(d, x)).s);
  if constexpr (kind == Activation::silu) return hn::Mul(x, Sigmoid<V>(d, x).s);
  if constexpr (kind == Activation::tanh) return hn::Tanh(d, x);
  using T = hn::TFromD<D>;
  if constexpr (kind == Activation::relu_squared) {
    const V y = Value<Activation::relu>(d, x);
    return hn::Mul(y, y);
  }
  if constexpr (kind == Activation::quick_gelu)
    return hn::Mul(x, Sigmoid<V>(d, hn::Mul(x, hn::Set(d, static_cast<T>(kQuick)))).s);
  if constexpr (kind == Activation::gelu_10) {
    const V y = Value<Activation::gelu>(d, x), most = hn::Set(d, T{10});
    return hn::IfThenElse(hn::Gt(y, most), most, y);  // NaN stays
  }
}

template <Activation kind, class D, class V>
HWY_INLINE V Gradient(D d, V dy, V x) {
  using T = hn::TFromD<D>;
  if constexpr (kind == Activation::relu) return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), dy);
  if constexpr (kind == Activation::gelu) {
    const Normal<V> normal(d, x);
    return hn::Mul(dy, hn::MulAdd(x, normal.density, normal.distribution));
  }
  if constexpr (kind == Activation::gelu_tanh) {
    const Sigmoid<V> sigmoid(d, TwiceU(d, x));
    // Held below infinity, which times 0 would be NaN.
    const V square = hn::Min(hn::Mul(x, x), hn::Set(d, T{1e6}));
    const V slope =
        hn::MulAdd(hn::Set(d, static_cast<T>(3 * kSlope * kCubic)), square, hn::Set(d, static_cast<T>(kSlope)));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(hn::Mul(x, sigmoid.s), sigmoid.rest), slope, sigmoid.s));
  }
  if constexpr (kind == Activation::silu) {
    const Sigmoid<V> sigmoid(d, x);
    return hn::Mul(dy, hn::MulAdd(hn::Mul(x, sigmoid.s), sigmoid.rest, sigmoid.s));
  }
  if constexpr (kind == Activation::tanh) {  // 1 - tanh(x)^2 without its cancellation
    const Sigmoid<V> sigmoid(d, hn::Add(x, x));
    return hn::Mul(dy, hn::Mul(hn::Set(d, T{4}), hn::Mul(sigmoid.s, sigmoid.rest)));
  }
  if constexpr (kind == Activation::relu_squared)
    return hn::Mul(dy, hn::Mul(hn::Set(d, T{2}), Value<Activation::relu>(d, x)));
  if constexpr (kind == Activation::quick_gelu) {
    const V slope = hn::Set(d, static_cast<T>(kQuick));
    const Sigmoid<V> sigmoid(d, hn::Mul(x, slope));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(hn::Mul(x, slope), sigmoid.s), sigmoid.rest, sigmoid.s));
  }
  if constexpr (kind == Activation::gelu_10)
    return hn::IfThenZeroElse(hn::Gt(Value<Activation::gelu>(d, x), hn::Set(d, T{10})),
                              Gradient<Activation::gelu>(d, dy, x));
}

// f(kind as a type): the choice is made once a piece, not once an element.
template <class F>
void WithKind(Activation kind, F&& f) {
  switch (kind) {
    case Activation::relu:
      return f(std::integral_constant<Activation, Activation::relu>());
    case Activation::gelu:
      return f(std::integral_constant<Activation, Activation::gelu>());
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::silu:
      return f(std::integral_constant<Activation, Activation::silu>());
    case Activation::tanh:
      return f(std::integral_constant<Activation, Activation::tanh>());
    case Activation::relu_squared:
      return f(std::integral_constant<Activation, Activation::relu_squared>());
    case Activation::quick_gelu:
      return f(std::integral_constant<Activation, Activation::quick_gelu>());
    case Activation::gelu_10:
      return f(std::integral_constant<Activation, Activation::gelu_10>());
  }
}

template <class T>
void Forward(Activation kind, const T* x, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  WithKind(kind, [&](auto k) HWY_ATTR {
    for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR { store(Value<k()>(d, load(x)), y); });
  });
}

template <class T>
void Backward(Activation kind, const T* dy, const T* x, T* dx, int64_t n) {
  const hn::ScalableTag<T> d;
  WithKind(kind, [&](auto k) HWY_ATTR {
    for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR { store(Gradient<k()>(d, load(dy), load(x)), dx); });
  });
}

template <class T>
void Gated(Activation kind, const T* gate, const T* up, T alpha, T* y, int64_t width) {
  const hn::ScalableTag<T> d;
  const auto slope = hn::Set(d, alpha), inverse = hn::Set(d, 1 / alpha);
  WithKind(kind, [&](auto k) HWY_ATTR {
    for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
      const auto f = hn::Mul(inverse, Value<k()>(d, hn::Mul(slope, load(gate))));
      store(hn::Mul(f, load(up)), y);
    });
  });
}

template <class T>
void GatedBackward(Activation kind, const T* dy, const T* gate, const T* up, T alpha, T* dgate, T* dup, int64_t width) {
  const hn::ScalableTag<T> d;
  const auto slope = hn::Set(d, alpha), inverse = hn::Set(d, 1 / alpha);
  WithKind(kind, [&](auto k) HWY_ATTR {
    for_vectors(d, width, [&](auto load, auto store, auto) HWY_ATTR {
      const auto grad = load(dy), scaled = hn::Mul(slope, load(gate));
      store(Gradient<k()>(d, hn::Mul(grad, load(up)), scaled), dgate);
      store(hn::Mul(grad, hn::Mul(inverse, Value<k()>(d, scaled))), dup);
    });
  });
}

#define HEED_ACTIVATION(T, Suffix)                                                                                    \
  void Forward##Suffix(Activation kind, const T* x, T* y, int64_t n) { Forward(kind, x, y, n); }                      \
  void Backward##Suffix(Activation kind, const T* dy, const T* x, T* dx, int64_t n) { Backward(kind, dy, x, dx, n); } \
  void Gated##Suffix(Activation kind, const T* gate, const T* up, T alpha, T* y, int64_t n) {                         \
    Gated(kind, gate, up, alpha, y, n);                                                                               \
  }                                                                                                                   \
  void GatedBackward##Suffix(Activation kind, const T* dy, const T* gate, const T* up, T alpha, T* dgate, T* dup,     \
                             int64_t n) {                                                                             \
    GatedBackward(kind, dy, gate, up, alpha, dgate, dup, n);                                                          \
  }
HEED_ACTIVATION(float, F32)
HEED_ACTIVATION(double, F64)
#undef HEED_ACTIVATION

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {

HEED_EXPORT(ForwardF32);
HEED_EXPORT(ForwardF64);
HEED_EXPORT(BackwardF32);
HEED_EXPORT(BackwardF64);
HEED_EXPORT(GatedF32);
HEED_EXPORT(GatedF64);
HEED_EXPORT(GatedBackwardF32);
HEED_EXPORT(GatedBackwardF64);

template <class T>
void activation_forward(Activation kind, const T* x, T* y, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(ForwardF32)(kind, x + begin, y + begin, end - begin);
    else
      HEED_DISPATCH(ForwardF64)(kind, x + begin, y + begin, end - begin);
  });
}

template <class T>
void activation_backward(Activation kind, const T* dy, const T* x, T* dx, int64_t n, Executor& ex) {
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>)
      HEED_DISPATCH(BackwardF32)(kind, dy + begin, x + begin, dx + begin, end - begin);
    else
      HEED_DISPATCH(BackwardF64)(kind, dy + begin, x + begin, dx + begin, end - begin);
  });
}

template <class T>
void gated_forward(Activation kind, const T* gate_up, T* y, int64_t rows, int64_t width, Executor& ex, T alpha) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *gate = gate_up + row * 2 * width, *up = gate + width;
      if constexpr (std::is_same_v<T, float>)
        HEED_DISPATCH(GatedF32)(kind, gate, up, alpha, y + row * width, width);
      else
        HEED_DISPATCH(GatedF64)(kind, gate, up, alpha, y + row * width, width);
    }
  });
}

template <class T>
void gated_backward(Activation kind, const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t width,
                    Executor& ex, T alpha) {
  for_rows(rows, 2 * width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *gate = gate_up + row * 2 * width, *up = gate + width;
      T *dgate = dgate_up + row * 2 * width, *dup = dgate + width;
      if constexpr (std::is_same_v<T, float>)
        HEED_DISPATCH(GatedBackwardF32)(kind, dy + row * width, gate, up, alpha, dgate, dup, width);
      else
        HEED_DISPATCH(GatedBackwardF64)(kind, dy + row * width, gate, up, alpha, dgate, dup, width);
    }
  });
}

#define HEED_ACTIVATION(T)                                                                   \
  template void activation_forward(Activation, const T*, T*, int64_t, Executor&);            \
  template void activation_backward(Activation, const T*, const T*, T*, int64_t, Executor&); \
  template void gated_forward(Activation, const T*, T*, int64_t, int64_t, Executor&, T);     \
  template void gated_backward(Activation, const T*, const T*, T*, int64_t, int64_t, Executor&, T);
HEED_ACTIVATION(float)
HEED_ACTIVATION(double)
#undef HEED_ACTIVATION

}  // namespace heed::inline v0
#endif
