// Gradients of the tape against central differences, in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "heed/autograd.h"
#include "heed/functional.h"
#include "heed/random.h"

namespace heed::test {

/// A leaf of normal draws.
inline Variable leaf(const Dims& shape, double deviation = 1) {
  return Variable(normal(shape, 0, deviation, DType::f64), true);
}

/// A fixed random functional of a tensor, so that every element of a gradient is tested: sum(weights * y).
inline Variable probe(const Variable& y, const Tensor& weights) {
  return functional::sum(functional::multiply(y, Variable(weights)));
}

/// Compares d f / d leaf with (f(x + h) - f(x - h)) / 2h for every element of every leaf. The error is relative to the
/// largest difference quotient of that leaf.
inline void expect_gradients(const std::function<Variable()>& f, std::vector<Variable> leaves,
                             double tolerance = 1e-6) {
  for (Variable& leaf : leaves) leaf.zero_grad();
  f().backward();
  for (size_t l = 0; l < leaves.size(); ++l) {
    ASSERT_TRUE(leaves[l].grad().defined()) << "leaf " << l << " got no gradient";
    const Tensor grad = leaves[l].grad().clone();
    const std::span<double> x = leaves[l].value().span<double>();
    std::vector<double> numeric(x.size());
    double largest = 1e-3;
    for (size_t i = 0; i < x.size(); ++i) {
      // Fourth order, so that the truncation error stays far below the tolerance.
      const double before = x[i], h = 1e-3;
      const auto at = [&](double step) {
        x[i] = before + step;
        const NoGrad no_grad;
        return f().value().item();
      };
      numeric[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      x[i] = before;
      largest = std::max(largest, std::abs(numeric[i]));
    }
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(grad.data<double>()[i], numeric[i], tolerance * largest) << "leaf " << l << ", element " << i;
  }
}

}  // namespace heed::test
