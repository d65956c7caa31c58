// The logarithm of a row's sum of exp, kept so that large scores lose nothing of the sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

namespace heed::inline v0 {

/// top + log: a score or near one, and what the sum adds to it. -inf and 0 of a row that saw nothing.
struct LogSum {
  double top = -static_cast<double>(INFINITY), log = 0;

  LogSum() = default;
  /// Of lse and lse_low.
  template <class T>
  LogSum(T high, T low) : top(static_cast<double>(high)), log(static_cast<double>(low)) {}
  bool is_nothing() const { return top == -static_cast<double>(INFINITY); }
  /// Over disjoint keys.
  friend LogSum operator+(const LogSum& a, const LogSum& b) {
    if (a.is_nothing()) return b;
    if (b.is_nothing()) return a;
    const auto& [large, small] = a.top >= b.top ? std::pair(a, b) : std::pair(b, a);
    LogSum sum;
    sum.top = large.top;
    sum.log = large.log + std::log1p(std::exp(small.top - large.top + small.log - large.log));
    return sum;
  }
  /// e^(this - sum), of a sum that it is a part of.
  double share_of(const LogSum& sum) const { return is_nothing() ? 0 : std::exp(top - sum.top + log - sum.log); }
  /// As T, and what the rounding leaves.
  template <class T>
  T rounded() const {
    return static_cast<T>(top + log);
  }
  template <class T>
  T rest() const {
    const double high = static_cast<double>(rounded<T>());
    return std::isfinite(high) ? static_cast<T>(top - high + log) : T{0};
  }
};

}  // namespace heed::inline v0
