// Sizes that come from a file: sums and products that say when they overflow instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// A size, or nothing once any step on the way to it overflowed: steps nest, and one test at the end suffices.
using CheckedSize = std::optional<uint64_t>;

inline CheckedSize checked_add(CheckedSize a, CheckedSize b) {
  uint64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

inline CheckedSize checked_multiply(CheckedSize a, CheckedSize b) {
  uint64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

/// The smallest multiple of `multiple` (not 0) that is not below `a`.
inline CheckedSize checked_round_up(CheckedSize a, uint64_t multiple) {
  const CheckedSize raised = checked_add(a, multiple - 1);
  if (!raised) return std::nullopt;
  return *raised - *raised % multiple;
}

/// The product of a shape, from left to right: a 0 stops later overflow, as in other readers of safetensors.
inline CheckedSize checked_product(std::span<const int64_t> shape) {
  CheckedSize product = 1;
  for (const int64_t size : shape)
    product = size < 0 ? std::nullopt : checked_multiply(product, static_cast<uint64_t>(size));
  return product;
}

}  // namespace heed::inline v0
