// Validation pairs that are held out of the training pairs.
#pragma once

#include <string>

#include "cli/train_options.h"
#include "heed/corpus.h"

namespace heed::cli {

/// Takes the validation pairs out of `texts`: the part that --valid-fraction names or, where neither that nor
/// validation data are given, default_valid_fraction() of them. Then it sets the option, so that the training keeps it.
/// `say` hears what was chosen. Throws UsageError where a part that was asked for would be empty or all.
void hold_out_validation(CLI::App& command, TrainArguments& a, TextPairs& texts, TextPairs& validation, const Say& say);

}  // namespace heed::cli
