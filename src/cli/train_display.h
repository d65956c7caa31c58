// How a training goes, on standard error: lines that stay, and on a terminal a bar with the time left.
#pragma once

#include <cstdint>
#include <string>

#include "cli/progress.h"
#include "heed/train.h"

namespace heed::cli {

/// "1:02:03".
std::string duration(double minutes);

/// What is learned in words: for a text its sequences are blocks.
struct TrainWords {
  const char* tokens = "words";
  const char* sequences = "sentences";
  double bits = 0;  // bits a byte are so many times the loss; 0 where they say nothing
};
/// "1.2345 (1.7810 bits/byte)".
std::string loss_in_words(double nll, const TrainWords& words);

/// All losses are those of the targets alone, without label smoothing: those of training and validation compare.
class TrainDisplay {
 public:
  explicit TrainDisplay(const TrainWords& words) : words_(words) {}

  void step(const TrainStep& step);
  void progress(const TrainProgress& p);
  void validation(const Validation& v);
  void line(const std::string& text);

 private:
  TrainWords words_;
  ProgressLine line_;
  int64_t sequences_ = 0;
};

}  // namespace heed::cli
