// Numbers that are not finite stop whoever computes with a model.
#pragma once

#include "heed/nn.h"

namespace heed::inline v0 {

/// Throws Error where `values` (float32), "a logit" for one, which `model` made, are not all finite. Only then the
/// model's parameters are searched, and the first bad one is named.
void check_finite(const char* operation, const char* what, const Tensor& values, const Module& model);

}  // namespace heed::inline v0
