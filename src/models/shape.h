// What the models share: configurations turned into layers, and tokens turned into vectors.
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

/// Rows of sinusoidal positions that a model keeps: those of most sentences.
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

/// The positions (rows) int32 of split rows.
Tensor positions_of(const functional::SplitRows& split);

/// Attention from the tokens of one batch to those of another, both padded or both packed.
MultiheadAttention::Call call_of(const TokenBatch& queries, const TokenBatch& keys, Causal causal);

/// How tokens become vectors.
struct TokenEmbedding {
  const char* model;      // for messages
  const Variable& table;  // (V, E)
  double factor;          // of its rows
  int64_t max_positions;
  const Variable& learned;                // (max_positions, E) or undefined
  const SinusoidalPositions* sinusoidal;  // or null
  double dropout;
  int64_t position_offset = 0;  // the row of `learned` that is position 0's
  int32_t unnumbered_id =
      -1;  // a token that takes the row in front of it, and that the positions of others do not count
  const LayerNorm* norm = nullptr;
  int32_t padding_id = -1;  // of functional::embedding
  /// ids (B, L) at positions first, first + 1, ..., at those of a packed batch, or at those of split rows -> (B, L, E).
  /// Throws ShapeError past max_positions.
  Variable operator()(const TokenBatch& batch, int64_t first_position,
                      const functional::SplitRows* split = nullptr) const;
};

}  // namespace heed::inline v0
