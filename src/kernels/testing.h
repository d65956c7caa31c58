// Helpers of the kernel tests: draws, difference quotients, thread counts, SIMD targets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "heed/executor.h"
#include "simd/targets.h"

namespace heed::test {

template <class T>
using Values = std::vector<T>;

inline Executor& one_thread() {
  static const std::unique_ptr<Executor> executor = make_executor(1);
  return *executor;
}

/// Normal draws, the same for a seed on every machine type: float's are double's rounded.
template <class T>
Values<T> normals(int64_t n, uint32_t seed = 1, double deviation = 1) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> normal(0, deviation);
  Values<T> values(static_cast<size_t>(n));
  for (T& value : values) value = static_cast<T>(normal(bits));
  return values;
}

template <class T>
Values<double> widen(const Values<T>& x) {
  return Values<double>(x.begin(), x.end());
}

inline double dot(const Values<double>& a, const Values<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Every element within `tolerance` of the expected, relative to the largest expected magnitude (at least 1).
template <class T>
void expect_near(const Values<T>& got, const Values<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], tolerance * largest) << "element " << i;
}

/// `gradient` against fourth-order central differences of f() by each element of x, relative to the largest of them.
template <class F>
void expect_gradient(const Values<double>& gradient, Values<double>& x, F&& f, double tolerance = 1e-6) {
  ASSERT_EQ(gradient.size(), x.size());
  Values<double> expected(x.size());
  double largest = 1e-3;
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = x[i], h = 1e-3;
    const auto at = [&](double step) {
      x[i] = before + step;
      return f();
    };
    expected[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    x[i] = before;
    largest = std::max(largest, std::abs(expected[i]));
  }
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(gradient[i], expected[i], tolerance * largest) << "element " << i;
}

/// compute(executor) gives the same bytes on 1, 2, 3 and 8 threads.
template <class F>
void expect_same_bits(F&& compute) {
  const auto expected = compute(one_thread());
  for (const int threads : {2, 3, 8}) {
    const auto executor = make_executor(threads);
    const auto got = compute(*executor);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(got[0])), 0) << threads << " threads";
  }
}

#ifdef HEED_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Runs f once for every SIMD target that was compiled and that this machine has.
template <class F>
void on_each_target(F&& f) {
  for (const int64_t target : supported_targets(HWY_TARGETS)) {
    if (kSanitized && target == HWY_EMU128) continue;  // loops over lanes, minutes when each access is watched
    SCOPED_TRACE(hwy::TargetName(target));
    set_targets_for_test(target);
    f();
  }
  set_targets_for_test(0);
}

inline constexpr int64_t kSizes[] = {0, 1, 3, 16, 31, 64, 133};  // below, at and past every vector width

}  // namespace heed::test
