// What several examples need: a matrix in the terminal, and how far two tensors are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "heed/tensor.h"

namespace heed::examples {

/// Prints `matrix` (rows, columns), floating.
inline void print(const char* name, const Tensor& matrix, int digits = 4) {
  const Tensor values = matrix.to(DType::f64);
  std::printf("%s %s\n", name, to_string(matrix.shape()).c_str());
  for (int64_t row = 0; row < values.size(0); ++row) {
    for (int64_t column = 0; column < values.size(1); ++column)
      std::printf(" %*.*f", digits + 3, digits, values.at<double>(row, column));
    std::printf("\n");
  }
}

/// max |a - b| over two tensors of one shape.
inline double largest_difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()))
    throw ShapeError("largest_difference: " + to_string(a.shape()) + " against " + to_string(b.shape()));
  const Tensor x = a.to(DType::f64).contiguous(), y = b.to(DType::f64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(difference <= largest)) largest = difference;  // a NaN comes through
  }
  return largest;
}

}  // namespace heed::examples
