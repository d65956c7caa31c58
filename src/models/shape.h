// Shared by the models: layers from configurations, and vectors from tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/random.h"

namespace heed::inline v0 {

template <class Config>
const Config& validated(const Config& c) {
  validate(c);
  return c;
}

/// Rows of sinusoidal positions that a model precomputes: enough for most sentences.
template <class Config>
int64_t held_positions(const Config& c) {
  return c.positions == "sinusoidal" && !ShapesOnly::here() ? std::min<int64_t>(c.max_positions, 256) : 0;
}

NormKind norm_kind(const std::string& name);

template <class Config>
TransformerLayerOptions layer_options(const Config& c) {
  return {.d_model = c.d_model,
          .nhead = c.nhead,
          .dim_feedforward = c.dim_feedforward,
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout,
          .activation = feed_forward_kind(c.activation),
          .norm = norm_kind(c.norm),
          .norm_first = c.norm_first,
          .bias = c.bias,
          .rotary = c.positions == "rotary"};
}

/// Positions of this rank's rows: (rows) int32.
Tensor positions_of(const functional::SplitRows& split);

/// The call for attention from one batch to another, both padded or both packed. `rotary`: of rotary layers.
MultiheadAttention::Call call_of(const TokenBatch& queries, const TokenBatch& keys, Causal causal, bool rotary);

/// Turns tokens into vectors: embeddings plus positions, then the optional norm and dropout.
struct TokenEmbedding {
  const char* model;      // for messages
  const Variable& table;  // (V, E)
  double factor;          // multiplies the rows of `table`
  int64_t max_positions;
  const Variable& learned;                // (max_positions, E) or undefined
  const SinusoidalPositions* sinusoidal;  // or null
  double dropout;
  int64_t position_offset = 0;  // row of position 0 in `learned`
  /// Padding token: takes row position_offset - 1 and is skipped when positions are counted; -1: none.
  int32_t unnumbered_id = -1;
  const LayerNorm* norm = nullptr;
  int32_t padding_id = -1;  // of functional::embedding
  /// ids (B, L) -> (B, L, E). Positions are first_position, first_position + 1, ..., or those of a packed batch or of
  /// `split`. Throws ShapeError beyond max_positions.
  Variable operator()(const TokenBatch& batch, int64_t first_position,
                      const functional::SplitRows* split = nullptr) const;
};

}  // namespace heed::inline v0
