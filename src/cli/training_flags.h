// The options of a training (heed/recipe.h) as flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "heed/recipe.h"

namespace heed::cli {

/// The flag of an option, for TrainingRequest::spelling: "--max-updates" for max_updates.
std::string training_flag(const std::string& field);

/// Adds the flag of an option, which sets it in `request`. The request must outlive the command.
CLI::Option* add_training_flag(CLI::App& command, TrainingRequest& request, const std::string& field);

/// Adds all of them, and --config and --resume.
void add_training_flags(CLI::App& command, TrainingRequest& request);

}  // namespace heed::cli
