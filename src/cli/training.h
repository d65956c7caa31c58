// A training from its data to the model's card, for whoever watches it: the program, or another one.
#pragma once

#include <string>

#include "cli/train_display.h"
#include "cli/train_options.h"
#include "heed/train.h"

namespace heed::cli {

/// Is told what happens, in the thread that trains.
class TrainWatcher {
 public:
  virtual ~TrainWatcher() = default;
  /// What a person may want to know of the data and of what is chosen by them.
  virtual void say(const std::string& text) = 0;
  /// The data is there.
  virtual void begin(const TrainWords& words) = 0;
  /// And how the training goes.
  virtual void line(const std::string& text) = 0;
  virtual void step(const TrainStep& step) = 0;
  virtual void progress(const TrainProgress& progress) = 0;
  virtual void validation(const Validation& validation) = 0;
  /// The model is written: a command that uses it.
  virtual void next(const std::string& command) = 0;
  /// Asked after each update; true saves and leaves.
  virtual bool stop() = 0;
};

/// Throws UsageError for arguments that do not go together, behind apply_config().
void check_training(const TrainArguments& a);

/// Whether data come from standard input.
bool reads_standard_input(const TrainArguments& a);

/// Trains as `a` asks, which has passed check_training(), and writes the model's card; `command` says which options
/// were given. Throws UsageError, and what train() throws.
TrainResult run_training(CLI::App& command, TrainArguments& a, TrainWatcher& watcher);

}  // namespace heed::cli
