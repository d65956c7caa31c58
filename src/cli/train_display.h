// How a training goes, on standard error: lines that stay, and on a terminal a bar with the time left.
#pragma once

#include <cstdint>
#include <string>

#include "cli/progress.h"
#include "heed/recipe.h"
#include "heed/train.h"

namespace heed::cli {

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
