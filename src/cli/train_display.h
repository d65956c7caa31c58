// How a training goes, on standard error: lines that stay, and on a terminal a bar with the time left.
#pragma once

#include <cstdint>
#include <string>

#include "cli/progress.h"
#include "heed/train.h"

namespace heed::cli {

/// "1:02:03".
std::string duration(double minutes);

class TrainDisplay {
 public:
  /// What is learned in words: for a text its sequences are blocks.
  struct Words {
    const char* tokens = "words";
    const char* sequences = "sentences";
    double bits = 0;  // bits a byte are so many times the loss; 0 where they say nothing
  };
  explicit TrainDisplay(const Words& words) : words_(words) {}

  std::string loss(double nll) const;
  void step(const TrainStep& step);
  void progress(const TrainProgress& p);
  void validation(const Validation& v);
  void line(const std::string& text);

 private:
  Words words_;
  ProgressLine line_;
  int64_t sequences_ = 0;
};

}  // namespace heed::cli
