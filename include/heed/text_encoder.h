// TextEncoder: models that read a text at once and say something of it or of each of its tokens, as BERT does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// What is made of the last states: linear(norm(activation(dense(state)))), of which all but the last may be absent.
struct EncoderHead {
  bool of_first_token = false;        // of that alone: one result for a text (else one for each token)
  std::optional<Activation> dense{};  // behind a square layer
  bool norm = false;                  // a LayerNorm behind it
  int64_t outputs = 0;                // rows of the last layer; 0: it is the embedding's matrix, for masked words
};

struct TextEncoderConfig {
  int64_t vocab_size = 0;
  int64_t d_model = 0;
  int64_t max_positions = 512;
  int64_t position_offset = 0;  // rows of the table of positions in front of the first (RoBERTa)
  int32_t unnumbered_id = -1;   // a token that has the last of these rows, and that positions do not count; -1: none
  int64_t types = 0;            // of tokens, as first and second text; 0: none
  double norm_epsilon = 1e-12;  // of the norm of embeddings
  double dropout = 0.1;         // of embeddings
  bool causal = false;          // tokens see those before them alone
  std::vector<TransformerLayerOptions> layers{};
  int64_t relative_buckets = 0;  // of relative_position_bias, the same for all layers, to distance 128; 0: none
  std::optional<EncoderHead> head{};
};

/// Devlin et al. 2019, "BERT". Embeddings of tokens, positions and types are added and normalised; all tokens see all.
class TextEncoder : public Module {
 public:
  /// Throws ShapeError.
  explicit TextEncoder(const TextEncoderConfig& config);
  const TextEncoderConfig& config() const { return config_; }

  /// text (B, L) -> the last states (B, L, E); packed -> (1, T, E), and no record. `types` (int32, shaped like the
  /// ids; absent: all 0). `record` gets its `encoder` part. Throws ShapeError for a text longer than max_positions.
  Variable hidden(const TokenBatch& text, const Tensor& types = {}, AttentionRecord* record = nullptr) const;
  /// What the head makes of states of that text: (B, L, outputs), packed (1, T, outputs), or of the first tokens
  /// (B, outputs). Throws UsageError without a head.
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
  Variable output_bias_;  // (V), where the matrix is the embedding's
};

}  // namespace heed::inline v0
