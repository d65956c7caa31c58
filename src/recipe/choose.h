// Options that a training chooses: size, regularisation and steps, from the amount of data and the time limit.
// docs/defaults.md has the rules and their results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/recipe.h"

namespace heed::inline v0 {

struct TrainFacts {
  bool text = false;             // a text for a language model, not sentence pairs
  int64_t pairs = 0;             // sentence pairs to learn from
  int64_t bytes = 0;             // of the text, or of both sides of the pairs
  int64_t characters = 0;        // different ones
  int64_t validation_bytes = 0;  // as bytes
  double minutes = 0;            // that are left; 0 for no such limit
  double flops = 0;              // useful floating-point operations a second (training_flop); 0: not measured
};

/// Counts the lines of texts.
class TextFacts {
 public:
  /// Returns whether the line has characters that those before it had not.
  bool add(const std::string& line);
  /// `facts` with bytes and characters.
  TrainFacts completed(TrainFacts facts) const;

 private:
  int64_t bytes_ = 0, characters_ = 0;
  std::vector<bool> seen_ = std::vector<bool>(0x110000);  // each character
};

/// Options of one kind with their values, and the reason.
struct Choice {
  TrainingRequest options{};
  std::string reason{};
};

/// Values for the options that are absent in `given`; those that are given count. A function of its arguments alone: it
/// knows the clock by `flops` only. With max_updates, or without any limit, the choice is the same on each machine.
std::vector<Choice> choose_defaults(const TrainFacts& facts, const TrainingRequest& given);

/// The part of the sentence pairs that is held out for validation by default: 2 %, but at least 100 and at most 2,000
/// pairs; a tenth of fewer than 1,000 pairs; none of fewer than 100, which would measure nothing.
double default_valid_fraction(int64_t pairs);

/// "chosen --d-model 128 --heads 4: reason", with options as `spelling` has them.
std::string to_line(const Choice& choice, std::string (*spelling)(const std::string& field));

/// Useful floating-point operations a second of training a small Transformer, measured for about so many seconds. Draws
/// from default_generator().
double measure_flops(double seconds);

}  // namespace heed::inline v0
