// Small enumerations that kernels, operations and layers share.
#pragma once

#include <cstdint>

namespace heed::inline v0 {

/// relu max(x, 0); gelu x Phi(x) (Hendrycks and Gimpel 2016); gelu_tanh its tanh approximation; silu x sigmoid(x).
enum class Activation : uint8_t { relu, gelu, gelu_tanh, silu };

/// Which two dimensions of a head turn together: (0,1), (2,3), ... or (0, D/2), (1, D/2 + 1), ...
enum class RotaryLayout : uint8_t { interleaved, half_split };

}  // namespace heed::inline v0
