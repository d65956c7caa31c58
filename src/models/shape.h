// What the models share: configurations checked and turned into layers, and tokens turned into vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// Checks the fields of a configuration; throws ShapeError that begins with the model's name.
class ConfigCheck {
 public:
  explicit ConfigCheck(const char* model) : model_(model) {}
  void range(const char* field, int64_t value, int64_t low, int64_t high) const;
  void probability(const char* field, double value) const;
  void one_of(const char* field, const std::string& value, const std::vector<std::string>& names) const;
  [[noreturn]] void fail(const std::string& message) const;

  /// The fields that every model has.
  template <class Config>
  void common(const Config& c) const {
    range("vocab_size", c.vocab_size, 1, 10'000'000);
    range("d_model", c.d_model, 1, 65536);
    range("nhead", c.nhead, 1, 4096);
    range("dim_feedforward", c.dim_feedforward, 1, 1'000'000);
    range("max_positions", c.max_positions, 1, 10'000'000);
    probability("dropout", c.dropout);
    probability("attention_dropout", c.attention_dropout);
    probability("activation_dropout", c.activation_dropout);
    one_of("activation", c.activation, {"relu", "gelu", "gelu_tanh", "silu", "swiglu"});
    one_of("norm", c.norm, {"layer_norm", "rms_norm"});
    one_of("positions", c.positions, {"sinusoidal", "learned", "rotary"});
    heads(c.d_model, c.nhead, c.positions == "rotary");
  }

 private:
  void heads(int64_t d_model, int64_t nhead, bool rotary) const;
  const char* model_;
};

FeedForwardKind activation_kind(const std::string& name);
NormKind norm_kind(const std::string& name);

template <class Config>
TransformerLayerOptions layer_options(const Config& c) {
  return {.d_model = c.d_model,
          .nhead = c.nhead,
          .dim_feedforward = c.dim_feedforward,
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout,
          .activation = activation_kind(c.activation),
          .norm = norm_kind(c.norm),
          .norm_first = c.norm_first,
          .bias = c.bias,
          .rotary = c.positions == "rotary"};
}

/// Parameters of the linear layers of a feed-forward.
template <class Config>
int64_t feed_forward_parameters(const Config& c) {
  const int64_t e = c.d_model, f = c.dim_feedforward, b = c.bias ? 1 : 0;
  const int64_t rows = c.activation == "swiglu" ? 2 * f : f;  // of linear1
  return rows * e + b * rows + e * f + b * e;
}

/// How tokens become vectors.
struct TokenEmbedding {
  const char* model;      // for messages
  const Variable& table;  // (V, E)
  double factor;          // of its rows
  int64_t max_positions;
  const Variable& learned;                // (max_positions, E) or undefined
  const SinusoidalPositions* sinusoidal;  // or null
  double dropout;
  /// ids (B, L) at positions first, first + 1, ..., or at those of a packed batch -> (B, L, E). Throws ShapeError past
  /// max_positions.
  Variable operator()(const TokenBatch& batch, int64_t first_position) const;
};

}  // namespace heed::inline v0
