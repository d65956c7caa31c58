// The part of a training that all kinds of it have in common: updates, and what is said and shown of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/nn.h"
#include "heed/text.h"
#include "recipe/settings.h"
#include "recipe/training_report.h"

namespace heed::inline v0 {

/// Two of the sentences that each validation translates for BLEU, for people to look at.
class SampleTranslations {
 public:
  /// The translations of a validation; the first ones of each are kept.
  void take(const TextPairs& texts, const std::vector<std::string>& translations);
  /// A line for each, and forgets them.
  std::vector<std::string> lines();

 private:
  std::vector<std::string> lines_;
};

struct WatchedTraining {
  Module& model;
  TrainWords words{};
  std::string data;       // begins the first line
  bool validates = true;  // there are data to validate on
  std::string file = kModelFile;
  SampleTranslations* samples = nullptr;
};

/// `train`, with hooks that tell the watcher and write what --html, --tensorboard and --timeline ask for. Says how it
/// ended, on rank 0.
TrainResult run_watched(const TrainingSettings& a, TrainingObserver& watcher, const WatchedTraining& training,
                        TrainHooks hooks, std::optional<ReportOnTraining> report,
                        const std::function<TrainResult(const TrainOptions&, const TrainHooks&)>& train);

/// A text to try the model with: one that is short and plain, or "TEXT".
std::string example_of(const std::vector<std::string>& texts);
/// The words that a text begins with, for a model to continue.
std::string first_words(const std::vector<std::string>& lines);

/// What the program has used of --max-minutes.
double minutes_since_start(const TrainingSettings& a);

}  // namespace heed::inline v0
