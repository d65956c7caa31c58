// Draws the next token from its logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

class Sampler {
 public:
  struct Choice {
    int32_t id;
    double probability;
  };
  /// Tokens of `never` are not drawn. Throws ShapeError for a value out of range; `operation` begins messages.
  Sampler(const Sampling& sampling, int64_t vocab_size, const std::vector<int32_t>& never, std::string operation);

  /// The tokens that may be drawn, their probabilities summing to 1; most probable first, the lower id where equal, if
  /// top_k, top_p or min_p cut any. logits (V), all finite. Throws ShapeError where every token is forbidden.
  std::vector<Choice> choices(std::span<const float> logits) const;

  /// Token `index` of text `sample`: a function of the seed, these two and the logits.
  int32_t operator()(std::span<const float> logits, uint64_t sample, uint64_t index) const;

 private:
  Sampling options_;
  std::vector<bool> forbidden_;  // (V)
  std::string operation_;
};

}  // namespace heed::inline v0
