// TextEncoder: encoder models such as BERT, with one result per token or per text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// The head computes linear(norm(activation(dense(state)))) from the last states. dense, activation and norm are
/// optional.
struct EncoderHead {
  bool of_first_token = false;        // true: one result per text, from its first token; false: one per token
  std::optional<Activation> dense{};  // activation after a square linear layer; absent: neither
  bool norm = false;                  // a LayerNorm after that
  int64_t outputs = 0;                // rows of the last layer; 0: use the embedding matrix, for masked words
};

struct TextEncoderConfig {
  int64_t vocab_size = 0;
  int64_t d_model = 0;
  int64_t max_positions = 512;
  int64_t position_offset = 0;  // row of position 0 in the position table (RoBERTa: 2)
  /// Padding token: takes row position_offset - 1 and is skipped when positions are counted; -1: none.
  int32_t unnumbered_id = -1;
  int64_t types = 0;            // number of token types (segments); 0: none
  double norm_epsilon = 1e-12;  // of the LayerNorm after the embeddings
  double dropout = 0.1;         // of the embeddings
  bool causal = false;          // true: a token attends only to itself and earlier tokens
  std::vector<TransformerLayerOptions> layers{};
  /// Buckets of relative_position_bias, shared by all layers, maximum distance 128; 0: none.
  int64_t relative_buckets = 0;
  std::optional<EncoderHead> head{};
};

/// A bidirectional encoder (Devlin et al. 2019, "BERT"). Token, position and type embeddings are added and normalised.
/// Every token attends to every token of its text, unless config().causal.
class TextEncoder : public Module {
 public:
  /// Throws ShapeError.
  explicit TextEncoder(const TextEncoderConfig& config);
  const TextEncoderConfig& config() const { return config_; }

  /// text (B, L) -> last states (B, L, E); packed text -> (1, T, E), without a record. `types` is int32 with the shape
  /// of the ids; default: all 0. Fills the `encoder` part of `record`. Throws ShapeError for a text longer than
  /// max_positions.
  Variable hidden(const TokenBatch& text, const Tensor& types = {}, AttentionRecord* record = nullptr) const;
  /// Applies the head to the states of `text`: (B, L, outputs), packed (1, T, outputs), or (B, outputs) where the head
  /// reads the first token only. Throws UsageError if the model has no head.
  Variable apply_head(const Variable& states, const TokenBatch& text) const;
  Variable logits(const TokenBatch& text, const Tensor& types = {}) const {
    return apply_head(hidden(text, types), text);
  }

 private:
  TextEncoderConfig config_;
  Variable embedding_, positions_, types_;  // (V, E), (max_positions + offset, E), (types, E)
  LayerNorm embedding_norm_;
  Variable relative_bias_;  // (buckets, H)
  std::unique_ptr<TransformerEncoder> layers_;
  std::unique_ptr<Linear> dense_, output_;
  std::unique_ptr<LayerNorm> head_norm_;
  Variable output_bias_;  // (V), only if outputs == 0
};

}  // namespace heed::inline v0
