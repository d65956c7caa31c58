// Whole models: token ids in, logits, losses or text ids out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/nn.h"

namespace heed::inline v0 {

/// Everything that decides a Transformer's shape; config.json holds exactly these names.
struct TransformerConfig {
  int64_t vocab_size = 0;
  int64_t d_model = 512;
  int64_t nhead = 8;
  int64_t num_encoder_layers = 6;
  int64_t num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // embeddings and sub-layer outputs
  double attention_dropout = 0;
  double activation_dropout = 0;
  std::string activation = "relu";  // relu, gelu, gelu_tanh, silu, swiglu
  std::string norm = "layer_norm";  // layer_norm, rms_norm
  bool norm_first = false;
  bool bias = true;
  std::string positions = "sinusoidal";  // sinusoidal, learned, rotary
  int64_t max_positions = 1024;          // longest input or output in tokens
  bool tie_embeddings = true;            // one matrix for source, target and output
  int32_t pad_id = 0, bos_id = 2, eos_id = 3;
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const TransformerConfig& config);
/// What Transformer(config).parameter_count() is, without taking the memory. `config` must be valid.
int64_t parameter_count(const TransformerConfig& config);

/// Sentences of unlike length, padded: ids (B, L) int32 and lengths (B) int32.
struct TokenBatch {
  Tensor ids, lengths;
  static TokenBatch pad(const std::vector<std::vector<int32_t>>& sentences, int32_t pad_id);
};

struct BeamOptions {
  int64_t beam = 5;
  double length_penalty = 1;  // score = log p / length^length_penalty, length counts the end token
  int64_t max_length = 0;     // 0: 2 * source length + 10
  int64_t n_best = 1;
  bool want_alignment = false;
};

struct Hypothesis {
  std::vector<int32_t> ids;  // without begin and end
  double log_probability = 0;
  double score = 0;    // log_probability / length^length_penalty
  Tensor alignment{};  // (target length + 1, source length): cross-attention of the last layer, mean of heads
};

/// The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017).
class Transformer : public Module {
 public:
  explicit Transformer(const TransformerConfig& config);
  const TransformerConfig& config() const { return config_; }

  /// source (B, Ls) -> memory (B, Ls, E). Source sentences end with eos.
  Variable encode(const TokenBatch& source, AttentionRecord* record = nullptr) const;
  /// target (B, Lt) begins with bos -> hidden states (B, Lt, E), to be multiplied by output_weight().
  Variable decode(const TokenBatch& target, const Variable& memory, const Tensor& source_lengths,
                  AttentionRecord* record = nullptr) const;
  /// Mean loss over the target tokens. `target` sentences carry neither bos nor eos; both are added here.
  Variable loss(const TokenBatch& source, const std::vector<std::vector<int32_t>>& target,
                const functional::CrossEntropyOptions& options = {}, functional::LossParts* parts = nullptr) const;
  /// Logits (B, Lt, V).
  Variable logits(const TokenBatch& source, const TokenBatch& target) const;
  /// Beam search for each sentence, best first; beam 1 is greedy. Results do not depend on what shares the batch
  /// beyond rounding.
  std::vector<std::vector<Hypothesis>> translate(const std::vector<std::vector<int32_t>>& source,
                                                 const BeamOptions& options = {}) const;

  const Variable& output_weight() const { return output_.defined() ? output_ : target_embedding(); }
  const Variable& target_embedding() const { return target_.defined() ? target_ : source_; }

 private:
  Variable embed(const Tensor& ids, const Variable& table, const Variable& learned, int64_t first_position) const;
  TransformerConfig config_;
  Variable source_, target_, output_;             // (V, E); undefined where tied
  Variable source_positions_, target_positions_;  // (max_positions, E), learned only
  SinusoidalPositions sinusoidal_;
  std::unique_ptr<TransformerEncoder> encoder_;
  std::unique_ptr<TransformerDecoder> decoder_;
};

}  // namespace heed::inline v0
