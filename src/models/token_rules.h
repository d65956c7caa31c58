// Rules that change the scores of the next token before it is chosen: TokenRules, checked and compiled for one model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// The text that rules read.
struct TextSoFar {
  std::span<const int32_t> ids{};     // all tokens, beginning with the prompt or the start token
  std::span<const int32_t> source{};  // the text to translate; of a language model the prompt
  size_t prompt = 0;                  // number of leading ids that were given
  bool last = false;                  // only one more token may follow
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
  /// `ends`: tokens that end a text. Throws ShapeError for a value out of range and for a token outside the vocabulary;
  /// `operation` begins the message.
  ScoreRules(const TokenRules& rules, std::vector<int32_t> ends, int64_t vocab_size, const std::string& operation);

  bool empty() const { return rules_.empty(); }
  /// Whether results differ between logits and log-probabilities. If false, rules only add to scores.
  bool depend_on_scale() const { return depend_on_scale_; }
  void apply(const TextSoFar& text, std::span<float> scores) const {
    for (const auto& rule : rules_) rule->apply(text, scores);
  }

 private:
  std::vector<std::unique_ptr<const ScoreRule>> rules_;
  bool depend_on_scale_ = false;
};

}  // namespace heed::inline v0
