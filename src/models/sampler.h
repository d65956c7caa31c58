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
  /// Throws ShapeError for a value out of range; `operation` begins messages.
  Sampler(const Sampling& sampling, std::string operation);

  /// The tokens that may be drawn; their probabilities sum to 1. With any cut they are sorted, most probable first and
  /// ties by id. logits (V) are finite, or -infinity for forbidden tokens. Throws ShapeError if every token is
  /// forbidden.
  std::vector<Choice> choices(std::span<const float> logits) const;

  /// Token `index` of text `sample`: a function of the seed, `sample`, `index` and the logits.
  int32_t operator()(std::span<const float> logits, uint64_t sample, uint64_t index) const;

 private:
  bool cuts() const { return top_k_ > 0 || top_p_ < 1 || min_p_ > 0 || typical_p_ < 1 || epsilon_ > 0 || eta_ > 0; }
  double temperature_, top_p_, min_p_, typical_p_, epsilon_, eta_;
  size_t top_k_;
  uint64_t seed_;
  std::string operation_;
};

}  // namespace heed::inline v0
