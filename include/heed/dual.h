// Dual numbers, which carry the derivative of what is computed with them, and functions that vectorise.
//
// The functions take float, double and Dual of either. They have no branches, tables or calls, so that a compiler
// vectorises a loop around them at -O2 where it would not one around std::exp. Errors are below 3 ulp; NaN and
// infinities go where those of <cmath> do. They need IEEE arithmetic: no -ffast-math.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "heed/cpp20.h"

// Never a function of its own: units built for different instruction sets would share it. And part of the caller's
// loop.
#define HEED_INLINE [[gnu::always_inline]] inline constexpr

namespace heed::inline v0 {

/// value + derivative * epsilon, epsilon^2 = 0. An arithmetic type on the other side of an operator is taken as T, so
/// that 0.5 * Dual<float> stays in float. Comparisons look at the values alone.
template <class T>
struct Dual {
  using Value = T;
  T value, derivative;

  constexpr Dual() = default;
  HEED_INLINE Dual(T v, T d) : value(v), derivative(d) {}
  /// A constant.
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE Dual(A constant) : value(static_cast<T>(constant)), derivative(0) {}

  HEED_INLINE friend Dual operator+(Dual a) { return a; }
  HEED_INLINE friend Dual operator-(Dual a) { return {-a.value, -a.derivative}; }
  HEED_INLINE friend Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
  HEED_INLINE friend Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
  HEED_INLINE friend Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
  }
  HEED_INLINE friend Dual operator/(Dual a, Dual b) {
    const T ratio = a.value / b.value;
    return {ratio, (a.derivative - ratio * b.derivative) / b.value};
  }

  // With constants: 0 times something cannot be left out of the formulas above.
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator+(Dual a, A b) {
    return {a.value + static_cast<T>(b), a.derivative};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator+(A a, Dual b) {
    return {static_cast<T>(a) + b.value, b.derivative};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator-(Dual a, A b) {
    return {a.value - static_cast<T>(b), a.derivative};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator-(A a, Dual b) {
    return {static_cast<T>(a) - b.value, -b.derivative};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator*(Dual a, A b) {
    return {a.value * static_cast<T>(b), a.derivative * static_cast<T>(b)};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator*(A a, Dual b) {
    return {static_cast<T>(a) * b.value, static_cast<T>(a) * b.derivative};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator/(Dual a, A b) {
    return {a.value / static_cast<T>(b), a.derivative / static_cast<T>(b)};
  }
  template <class A>
  requires std::is_arithmetic_v<A> HEED_INLINE friend Dual operator/(A a, Dual b) {
    const T ratio = static_cast<T>(a) / b.value;
    return {ratio, -ratio * b.derivative / b.value};
  }

  template <class A>
  HEED_INLINE Dual& operator+=(A a) {
    return *this = *this + a;
  }
  template <class A>
  HEED_INLINE Dual& operator-=(A a) {
    return *this = *this - a;
  }
  template <class A>
  HEED_INLINE Dual& operator*=(A a) {
    return *this = *this * a;
  }
  template <class A>
  HEED_INLINE Dual& operator/=(A a) {
    return *this = *this / a;
  }

  HEED_INLINE friend bool operator==(Dual a, Dual b) { return a.value == b.value; }
  HEED_INLINE friend bool operator!=(Dual a, Dual b) { return a.value != b.value; }
  HEED_INLINE friend bool operator<(Dual a, Dual b) { return a.value < b.value; }
  HEED_INLINE friend bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  HEED_INLINE friend bool operator>(Dual a, Dual b) { return a.value > b.value; }
  HEED_INLINE friend bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
};

template <class A>
inline constexpr bool is_dual = false;
template <class T>
inline constexpr bool is_dual<Dual<T>> = true;

template <class A>
concept Real = std::floating_point<A> || is_dual<A>;
template <class A>
concept Number = std::is_arithmetic_v<A> || is_dual<A>;

/// What an expression of both is: a Dual if one is, else the usual arithmetic type.
template <Number A, Number B>
struct Promote : std::common_type<A, B> {};
template <class T, Number B>
struct Promote<Dual<T>, B> : std::type_identity<Dual<T>> {};
template <Number A, class T>
struct Promote<A, Dual<T>> : std::type_identity<Dual<T>> {};
template <class T>
struct Promote<Dual<T>, Dual<T>> : std::type_identity<Dual<T>> {};
template <Number A, Number B>
using Promoted = typename Promote<A, B>::type;

/// Bits, and the numbers that the functions below are made of.
template <class T>
struct FloatingTraits;
template <>
struct FloatingTraits<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23;       // bits
  static constexpr Bits kBias = 127;         // of the exponent
  static constexpr Bits kRoot = 0x3F3504F3;  // sqrt(1/2)
  static constexpr Bits kRsqrt = 0x5F3759DF;
  static constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;  // the first has 16 bits
  static constexpr float kExpMin = -104, kExpMax = 89;                       // past them exp is 0, and inf
  // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, lowest power first
  static constexpr float kExp[] = {0.50000000269501713f, 0.166665769700267f, 0.0416663751339024833f,
                                   0.00836318123765204484f, 0.00139411240217263532f};
  // (log((1 + s) / (1 - s)) / s - 2) / z as a function of z = s^2, |s| <= 3 - sqrt(8)
  static constexpr float kLog[] = {0.666666665530205116f, 0.4000012275369882f, 0.285507371136145721f,
                                   0.233323828776465728f};
};
template <>
struct FloatingTraits<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr Bits kBias = 1023;
  static constexpr Bits kRoot = 0x3FE6A09E667F3BCD;
  static constexpr Bits kRsqrt = 0x5FE6EB50C7B537A9;
  static constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kExpMin = -746, kExpMax = 710;
  static constexpr double kExp[] = {0.5,
                                    0.16666666666666671,
                                    0.0416666666666666838,
                                    0.00833333333332613458,
                                    0.00138888888888743943,
                                    0.000198412698748222586,
                                    0.0000248015873473471883,
                                    2.75572553983899117e-6,
                                    2.75572529065127271e-7,
                                    2.51052176782634125e-8,
                                    2.09215910036989546e-9};
  static constexpr double kLog[] = {0.666666666666666973, 0.399999999998984448, 0.285714286263992534,
                                    0.222222110728368927, 0.181828932190633293, 0.153315969487795202,
                                    0.146178728179265383};
};

namespace numbers {

/// condition ? a : b by bits: a compiler may move what only one side needs into a branch, and such a loop does not
/// vectorise.
template <class T>
HEED_INLINE T select(bool condition, T a, T b) {
  using Bits = typename FloatingTraits<T>::Bits;
  const Bits mask = -static_cast<Bits>(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

/// c[first] + c[first + 1] x + ..., by Horner; without a loop, which would keep the one around it from vectorising.
template <size_t first = 0, class T, size_t N>
HEED_INLINE T polynomial(T x, const T (&c)[N]) {
  if constexpr (first + 1 == N) {
    return c[first];
  } else {
    return polynomial<first + 1>(x, c) * x + c[first];
  }
}

/// 2^n for -kBias < n <= kBias + 1; 0 for n = -kBias.
template <class T>
HEED_INLINE T power_of_two(int32_t n) {
  using F = FloatingTraits<T>;
  return std::bit_cast<T>(static_cast<typename F::Bits>(n + static_cast<int32_t>(F::kBias)) << F::kMantissa);
}

/// x = n ln 2 + r with |r| <= ln(2) / 2, and e^r - 1. x within kExpMin .. kExpMax, not NaN.
/// After W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980), 6; minimax polynomials.
template <class T>
struct ExpParts {
  int32_t n;
  T expm1;
};
template <class T>
HEED_INLINE ExpParts<T> exp_parts(T x) {
  using F = FloatingTraits<T>;
  constexpr int32_t kShift = 2048;  // makes it positive, so that truncation is floor
  const int32_t n = static_cast<int32_t>(x * static_cast<T>(1.44269504088896341) + (kShift + T{0.5})) - kShift;
  const T k = static_cast<T>(n);
  const T r = (x - k * F::kLn2High) - k * F::kLn2Low;
  return {n, r + r * r * polynomial(r, F::kExp)};
}

/// The same with NaN and what is out of range clamped.
template <class T>
HEED_INLINE T clamp(T x, T low, T high) {
  const T above = select(x > low, x, low);
  return select(above < high, above, high);
}

template <class T>
HEED_INLINE T exp(T x) {
  using F = FloatingTraits<T>;
  const ExpParts<T> e = exp_parts(clamp(x, F::kExpMin, F::kExpMax));
  const int32_t half = e.n >> 1;  // in two steps, since 2^n need not be a normal number
  const T y = (T{1} + e.expm1) * power_of_two<T>(half) * power_of_two<T>(e.n - half);
  return select(x == x, y, x);
}

/// After fdlibm's e_log.c (K. C. Ng, 1993): log(1 + f) by s = f / (2 + f).
template <class T>
HEED_INLINE T log(T x) {
  using F = FloatingTraits<T>;
  using Bits = typename F::Bits;
  constexpr T kTiny = std::numeric_limits<T>::min();
  constexpr T kScale = T{1} / std::numeric_limits<T>::epsilon();
  const bool subnormal = x < kTiny;
  const T scaled = x * kScale;
  const Bits bits = std::bit_cast<Bits>(select(subnormal, scaled, x));
  const Bits one = F::kBias << F::kMantissa;
  const Bits shifted = bits + (one - F::kRoot);
  const int32_t exponent = static_cast<int32_t>(shifted >> F::kMantissa) - static_cast<int32_t>(F::kBias);
  const T k = static_cast<T>(exponent - (subnormal ? F::kMantissa : 0));
  const T f = std::bit_cast<T>((shifted & ((Bits{1} << F::kMantissa) - 1)) + F::kRoot) - T{1};
  const T s = f / (T{2} + f), z = s * s, half = T{0.5} * f * f;
  const T y = k * F::kLn2High - ((half - (s * (half + z * polynomial(z, F::kLog)) + k * F::kLn2Low)) - f);
  constexpr T inf = std::numeric_limits<T>::infinity();
  const T edge = select(x == T{0}, -inf, select(x == inf, inf, std::numeric_limits<T>::quiet_NaN()));
  return select((x > T{0}) & (x < inf), y, edge);
}

/// 1 / sqrt by the exponent halved (C. Lomont, Fast Inverse Square Root, 2003), Newton's steps, and one of Heron's.
template <class T>
HEED_INLINE T sqrt(T x) {
  using F = FloatingTraits<T>;
  using Bits = typename F::Bits;
  constexpr T kTiny = std::numeric_limits<T>::min(), inf = std::numeric_limits<T>::infinity();
  constexpr T kScale = static_cast<T>(Bits{1} << F::kMantissa) * static_cast<T>(Bits{1} << F::kMantissa);
  const T scaled = x * kScale, up = select(x < kTiny, scaled, x);
  T r = std::bit_cast<T>(F::kRsqrt - (std::bit_cast<Bits>(up) >> 1));
  r = r * (T{1.5} - T{0.5} * up * r * r);
  r = r * (T{1.5} - T{0.5} * up * r * r);
  if constexpr (sizeof(T) == 8) r = r * (T{1.5} - T{0.5} * up * r * r);
  const T root = T{0.5} * (up * r + T{1} / r);
  const T down = root / static_cast<T>(Bits{1} << F::kMantissa), y = select(x < kTiny, down, root);
  const T edge = select(x < T{0}, std::numeric_limits<T>::quiet_NaN(), x);  // 0, inf, NaN
  return select((x > T{0}) & (x < inf), y, edge);
}

/// By e = exp(-2 |x|) - 1, of which nothing cancels. `slope` is 1 - tanh^2 without cancellation.
template <class T>
struct TanhParts {
  T value, slope;
};
template <class T>
HEED_INLINE TanhParts<T> tanh(T x) {
  const T a = x < T{0} ? -x : x;
  const ExpParts<T> parts = exp_parts(clamp(T{-2} * a, T{-80}, T{0}));
  const T power = power_of_two<T>(parts.n), tail = power * parts.expm1;
  const T e = tail + (power - T{1}), r = T{1} / (e + T{2}), y = -e * r;
  return {select(x == x, select(x < T{0}, -y, y), x), T{4} * (tail + power) * r * r};
}

template <class T>
struct SigmoidParts {
  T value, slope;
};
template <class T>
HEED_INLINE SigmoidParts<T> sigmoid(T x) {
  const T e = exp(x < T{0} ? x : -x);  // exp(-|x|)
  const T r = T{1} / (T{1} + e);
  return {select(x < T{0}, e * r, r), e * r * r};
}

}  // namespace numbers

template <Real X>
HEED_INLINE X exp(X x) {
  if constexpr (is_dual<X>) {
    const auto y = numbers::exp(x.value);
    return {y, y * x.derivative};
  } else {
    return numbers::exp(x);
  }
}

template <Real X>
HEED_INLINE X log(X x) {
  if constexpr (is_dual<X>) {
    return {numbers::log(x.value), x.derivative / x.value};
  } else {
    return numbers::log(x);
  }
}

/// Its derivative at 0 is infinite.
template <Real X>
HEED_INLINE X sqrt(X x) {
  if constexpr (is_dual<X>) {
    const auto y = numbers::sqrt(x.value);
    return {y, x.derivative / (y + y)};
  } else {
    return numbers::sqrt(x);
  }
}

template <Real X>
HEED_INLINE X tanh(X x) {
  if constexpr (is_dual<X>) {
    const auto y = numbers::tanh(x.value);
    return {y.value, y.slope * x.derivative};
  } else {
    return numbers::tanh(x).value;
  }
}

/// 1 / (1 + exp(-x)).
template <Real X>
HEED_INLINE X sigmoid(X x) {
  if constexpr (is_dual<X>) {
    const auto y = numbers::sigmoid(x.value);
    return {y.value, y.slope * x.derivative};
  } else {
    return numbers::sigmoid(x).value;
  }
}

/// condition ? a : b where both are computed: what vectorises. The derivative is that of the one taken.
template <Number A, Number B>
HEED_INLINE Promoted<A, B> where(bool condition, A a, B b) {
  using R = Promoted<A, B>;
  if constexpr (is_dual<R>) {
    const R x = a, y = b;
    return {numbers::select(condition, x.value, y.value), numbers::select(condition, x.derivative, y.derivative)};
  } else if constexpr (std::floating_point<R>) {
    return numbers::select(condition, static_cast<R>(a), static_cast<R>(b));
  } else {
    return condition ? static_cast<R>(a) : static_cast<R>(b);
  }
}

/// |x|; the derivative at 0 is 0.
template <Number X>
HEED_INLINE X abs(X x) {
  if constexpr (is_dual<X>) {
    using T = typename X::Value;
    const T d = x.value > T{0} ? x.derivative : x.value < T{0} ? -x.derivative : T{0};
    return {abs(x.value), d};
  } else {
    return x < X{0} ? static_cast<X>(-x) : x;
  }
}

/// The lesser; where the two are equal, or one is NaN, the first with its derivative.
template <Number A, Number B>
HEED_INLINE Promoted<A, B> min(A a, B b) {
  using R = Promoted<A, B>;
  return where(static_cast<R>(b) < static_cast<R>(a), static_cast<R>(b), static_cast<R>(a));
}

/// The greater; where the two are equal, or one is NaN, the first with its derivative.
template <Number A, Number B>
HEED_INLINE Promoted<A, B> max(A a, B b) {
  using R = Promoted<A, B>;
  return where(static_cast<R>(a) < static_cast<R>(b), static_cast<R>(b), static_cast<R>(a));
}

}  // namespace heed::inline v0

#undef HEED_INLINE
