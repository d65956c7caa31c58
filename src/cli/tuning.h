// Going on with the training of another maker's model: its directory begins a training, and stays in its layout.
#pragma once

#include <string>

#include "cli/training.h"

namespace heed::cli {

/// Where the model of the training comes from: --model, where that holds a training of another maker's model, else
/// --init, where that is one. Empty where heed's own are trained. Throws IoError and FormatError.
std::string tuned_directory(const TrainArguments& a);

/// Trains the model of a.tuned, which is not empty, as run_training() does.
TrainResult run_tuning(CLI::App& command, TrainArguments& a, TrainWatcher& watcher);

}  // namespace heed::cli
