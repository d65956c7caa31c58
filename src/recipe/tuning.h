// Fine-tuning of a Hugging Face model, whose directory stays in its layout.
#pragma once

#include "recipe/settings.h"

namespace heed::inline v0 {

/// Trains the model of a.tuned, which is not empty.
TrainResult run_tuning(TrainingSettings& a, TrainingObserver& watcher);

}  // namespace heed::inline v0
