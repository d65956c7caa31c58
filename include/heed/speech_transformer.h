// SpeechTransformer: a model such as Whisper, which transcribes the spectrum of speech.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

struct SpeechTransformerConfig {
  int64_t vocab_size = 0;
  int64_t mel_bins = 80;
  int64_t d_model = 0;
  int64_t max_source_positions = 1500;  // encoder states; each stands for two frames of the spectrum
  int64_t max_target_positions = 448;
  double dropout = 0;          // of the embeddings
  int32_t padding_id = -1;     // of functional::embedding
  bool tie_embeddings = true;  // true: the output uses the embedding's matrix; false: its own
  std::vector<TransformerLayerOptions> encoder{}, decoder{};
  bool has_head = true;        // false: the model has states but no logits
  std::string missing_head{};  // the reason, to follow "a model ", if files lack the head; see PretrainedHead::missing
};

struct TranscribeOptions {
  std::vector<int32_t> prompt{};  // at least one token: start, language, task
  int64_t max_tokens = 224;       // most tokens after the prompt
  Sampling sampling{.temperature = 0};
  std::vector<int32_t> stop{};                  // tokens that end the text; they are not part of it
  std::vector<int32_t> never{}, never_first{};  // forbidden tokens; forbidden as the first token
};

/// Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", 2.2: two convolutions of width 3
/// (the second with stride 2), each with gelu, then positions, encoder and decoder, each with a final norm.
class SpeechTransformer : public Module {
 public:
  /// Throws ShapeError.
  explicit SpeechTransformer(const SpeechTransformerConfig& config);
  const SpeechTransformerConfig& config() const { return config_; }

  /// mel (B, mel_bins, 2 * max_source_positions), floating, the log-mel spectrum -> memory (B, max_source_positions,
  /// E). Fills the `encoder` part of `record`. Throws ShapeError for another shape.
  Variable encode(const Tensor& mel, AttentionRecord* record = nullptr) const;
  /// target (B, Lt), padded -> last states (B, Lt, E). Fills the `decoder` and `cross` parts of `record`. Throws
  /// ShapeError for a packed target and for one longer than max_target_positions.
  Variable decode(const TokenBatch& target, const Variable& memory, AttentionRecord* record = nullptr) const;
  /// states (..., E) -> logits (..., V). Throws UsageError if the model has no head.
  Variable logits_of(const Variable& states) const;
  const Variable& output_weight() const { return output_.defined() ? output_ : embedding_; }  // (V, E)
  Variable logits(const Tensor& mel, const TokenBatch& target) const { return logits_of(decode(target, encode(mel))); }
  /// Transcribes one spectrum (1, mel_bins, 2 * max_source_positions) and returns the tokens after the prompt. Keys and
  /// values are cached. Stops at max_target_positions. The model must not be in training. Throws ShapeError for options
  /// out of range, Error for a logit that is not finite.
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
