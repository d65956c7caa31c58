// Where tensors hold what is not a number, or no finite one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// The first number that is not finite, in the order of the list: "tensor 'linear1.weight' holds NaN at (3, 17)".
/// Nothing where all are finite; booleans and integers are.
std::optional<std::string> first_non_finite(std::span<const std::pair<std::string, Tensor>> tensors);

}  // namespace heed::inline v0
