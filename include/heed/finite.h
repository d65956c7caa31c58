// Finds the first NaN or infinity in a list of tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "heed/tensor.h"

namespace heed::inline v0 {

class Module;

/// The first number that is not finite, in the order of the list: "tensor 'linear1.weight' holds NaN at (3, 17)".
/// None if all are finite; booleans and integers always are.
std::optional<std::string> first_non_finite(std::span<const std::pair<std::string, Tensor>> tensors);

/// Searches the parameters of a module. Names the file that the number came from where the module knows it
/// (Module::search_files()).
std::optional<std::string> first_non_finite(const Module& module);

}  // namespace heed::inline v0
