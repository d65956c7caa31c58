// Rules that change the scores of the next token before it is chosen: TokenRules, checked and compiled for one model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// What rules look at beside the scores.
struct TextSoFar {
  std::span<const int32_t> ids{};     // all tokens, with the prompt or the start token in front
  std::span<const int32_t> source{};  // what is translated; of a language model the prompt
  size_t prompt = 0;                  // of ids, how many were given
  bool last = false;                  // only one token may follow
};

/// One rule. Const functions may run in several threads at once.
class ScoreRule {
 public:
  virtual ~ScoreRule() = default;
  /// scores (V)
  virtual void apply(const TextSoFar& text, std::span<float> scores) const = 0;
};

/// All of a caller's rules, in their order.
class ScoreRules {
 public:
  /// `ends`: tokens that end a text. Throws ShapeError, which `operation` begins, for a value out of range and for a
  /// token of a rule that is not in the vocabulary.
  ScoreRules(const TokenRules& rules, std::vector<int32_t> ends, int64_t vocab_size, const std::string& operation);

  bool empty() const { return rules_.empty(); }
  /// Whether logits and log-probabilities come out differently. Else rules only add to scores.
  bool depend_on_scale() const { return depend_on_scale_; }
  void apply(const TextSoFar& text, std::span<float> scores) const {
    for (const auto& rule : rules_) rule->apply(text, scores);
  }

 private:
  std::vector<std::unique_ptr<const ScoreRule>> rules_;
  bool depend_on_scale_ = false;
};

}  // namespace heed::inline v0
