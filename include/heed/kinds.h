// Small enumerations that kernels, operations and layers share.
#pragma once

#include <cstdint>
#include <string_view>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// relu max(x, 0); gelu x Phi(x) (Hendrycks and Gimpel 2016); gelu_tanh its tanh approximation; silu x sigmoid(x). The
/// others no feed-forward of heed's own has: tanh; relu_squared max(x, 0)^2 (So et al. 2021, "Primer"); quick_gelu
/// x sigmoid(1.702 x); gelu_10 min(gelu(x), 10).
enum class Activation : uint8_t { relu, gelu, gelu_tanh, silu, tanh, relu_squared, quick_gelu, gelu_10 };

/// The function between the linear layers of a feed-forward: an activation, or a gate's activation times the other half
/// (Shazeer 2020, "GLU Variants Improve Transformer").
struct FeedForwardKind {
  Activation activation = Activation::relu;
  bool gated = false;
  double alpha = 1;  // of functional::gated
  double limit = 0;  // of functional::bounded_gate before it; 0: none
};
struct NamedFeedForwardKind {
  const char* name;  // in configurations
  FeedForwardKind kind;
};
/// All that configurations may name.
inline constexpr NamedFeedForwardKind kFeedForwardKinds[] = {
    {"relu", {Activation::relu}},           {"gelu", {Activation::gelu}},
    {"gelu_tanh", {Activation::gelu_tanh}}, {"silu", {Activation::silu}},
    {"reglu", {Activation::relu, true}},    {"geglu", {Activation::gelu, true}},
    {"swiglu", {Activation::silu, true}},   {"geglu_tanh", {Activation::gelu_tanh, true}},
};
/// Throws UsageError for a name that is not there.
FeedForwardKind feed_forward_kind(std::string_view name);

/// Which two dimensions of a head turn together: (0,1), (2,3), ... or (0, D/2), (1, D/2 + 1), ...
enum class RotaryLayout : uint8_t { interleaved, half_split };

}  // namespace heed::inline v0
