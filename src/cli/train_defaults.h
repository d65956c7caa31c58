// What heed train chooses where nobody does: size, regularisation and steps, from how much there is to learn from and
// how long it may take. docs/defaults.md has the rules, and how they compare with what a search finds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heed::cli {

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

/// Options of one kind with their values, in the order in which they are named, and why.
struct Choice {
  std::vector<std::pair<std::string, std::string>> options;
  std::string reason;
};

/// Options of heed train that were given, with the first value of each.
using GivenOptions = std::map<std::string, std::string>;

/// Values for the options that are not given; what is given decides with. A function of its arguments alone. It knows
/// the clock by `flops` only: with --max-updates, or without any limit, the choice is the same on each machine.
std::vector<Choice> choose_defaults(const TrainFacts& facts, const GivenOptions& given);

/// The part of the sentence pairs that is held out for validation where nothing is said of it: 2 %, but at least 100
/// and at most 2,000 pairs; of fewer than 1,000 pairs a tenth; of fewer than 100 none, which would measure nothing.
double default_valid_fraction(int64_t pairs);

/// "--d-model 128 --heads 4: reason"
std::string to_line(const Choice& choice);

/// Useful floating-point operations a second of training a small Transformer, measured for about so many seconds. Draws
/// from default_generator().
double measure_flops(double seconds);

}  // namespace heed::cli
