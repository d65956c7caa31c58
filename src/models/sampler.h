// Draws the next token from its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

class Sampler {
 public:
  struct Choice {
    int32_t id;
    double probability;
  };
  /// `options` must outlive this. Throws ShapeError for a value out of range.
  Sampler(const GenerateOptions& options, int64_t vocab_size);

  /// The tokens that may be drawn, their probabilities summing to 1; most probable first, the lower id where equal, if
  /// top_k or top_p cut any. logits (V). Throws Error where none is finite.
  std::vector<Choice> choices(std::span<const float> logits) const;

  /// Token `index` of the text: a function of options.seed, options.sample, index and the logits.
  int32_t operator()(std::span<const float> logits, uint64_t index) const;

 private:
  const GenerateOptions& options_;
  std::vector<bool> forbidden_;  // (V)
};

}  // namespace heed::inline v0
