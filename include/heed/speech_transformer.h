// SpeechTransformer: a model that reads the spectrum of speech and writes it down, as Whisper does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

struct SpeechTransformerConfig {
  int64_t vocab_size = 0;
  int64_t mel_bins = 80;
  int64_t d_model = 0;
  int64_t max_source_positions = 1500;  // of states; two frames of the spectrum become one
  int64_t max_target_positions = 448;
  double dropout = 0;          // of embeddings
  int32_t padding_id = -1;     // of functional::embedding
  bool tie_embeddings = true;  // the output is the embedding's matrix; else it has its own
  std::vector<TransformerLayerOptions> encoder{}, decoder{};
};

struct TranscribeOptions {
  std::vector<int32_t> prompt{};  // what the text begins with, one token at least: the start, language, task
  int64_t max_tokens = 224;       // that are written behind it
  Sampling sampling{.temperature = 0};
  std::vector<int32_t> stop{};                  // tokens that end the text; they are not part of it
  std::vector<int32_t> never{}, never_first{};  // tokens that are not written; not as the first one
};

/// Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", 2.2: two convolutions (of three
/// frames, the second by every second one), each with gelu, and positions; encoder and decoder with a norm behind each.
class SpeechTransformer : public Module {
 public:
  /// Throws ShapeError.
  explicit SpeechTransformer(const SpeechTransformerConfig& config);
  const SpeechTransformerConfig& config() const { return config_; }

  /// mel (B, mel_bins, 2 * max_source_positions), floating, the log-mel spectrum -> memory (B, max_source_positions,
  /// E). `record` gets its `encoder` part. Throws ShapeError for another shape.
  Variable encode(const Tensor& mel, AttentionRecord* record = nullptr) const;
  /// target (B, Lt), padded -> the last states (B, Lt, E). `record` gets its `decoder` and `cross` parts. Throws
  /// ShapeError for a packed target and one that is longer than max_target_positions.
  Variable decode(const TokenBatch& target, const Variable& memory, AttentionRecord* record = nullptr) const;
  /// states (..., E) -> logits (..., V).
  Variable logits_of(const Variable& states) const { return functional::linear(states, output_weight()); }
  const Variable& output_weight() const { return output_.defined() ? output_ : embedding_; }  // (V, E)
  Variable logits(const Tensor& mel, const TokenBatch& target) const { return logits_of(decode(target, encode(mel))); }
  /// The tokens of one spectrum (1, mel_bins, 2 * max_source_positions), behind the prompt; keys and values are cached.
  /// It ends where max_target_positions are full. The model must not be in training. Throws ShapeError for options out
  /// of range, Error where a logit is not finite.
  std::vector<int32_t> transcribe(const Tensor& mel, const TranscribeOptions& options) const;

  const Variable& embedding() const { return embedding_; }  // (V, E)

 private:
  Variable embed(const TokenBatch& target, int64_t first_position) const;
  SpeechTransformerConfig config_;
  Variable embedding_, output_, source_positions_, target_positions_;  // (V, E), (V, E) or undefined, (positions, E)
  Linear conv1_, conv2_;                                               // (E, mel_bins * 3), (E, E * 3)
  std::unique_ptr<TransformerEncoder> encoder_;
  std::unique_ptr<TransformerDecoder> decoder_;
};

}  // namespace heed::inline v0
