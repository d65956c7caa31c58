// The part of a training that all kinds of it have in common: updates, and what is said and shown of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/training.h"
#include "cli/training_report.h"
#include "heed/nn.h"

namespace heed::cli {

struct WatchedTraining {
  Module& model;
  TrainWords words{};
  std::string data;       // begins the first line
  bool validates = true;  // there are data to validate on
  std::string file = kModelFile;
};

/// `train`, with hooks that tell the watcher and write what --html, --tensorboard and --timeline ask for. Says how it
/// ended, on rank 0.
TrainResult run_watched(const TrainArguments& a, TrainWatcher& watcher, const WatchedTraining& training,
                        TrainHooks hooks, std::optional<ReportOnTraining> report,
                        const std::function<TrainResult(const TrainOptions&, const TrainHooks&)>& train);

/// What the program has used of --max-minutes.
double minutes_since_start(const TrainArguments& a);

}  // namespace heed::cli
