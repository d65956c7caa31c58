// Validation pairs that are held out of the training pairs.
#pragma once

#include <string>

#include "recipe/settings.h"
#include "heed/corpus.h"

namespace heed::inline v0 {

/// Takes the validation pairs out of `texts`: the part that --valid-fraction names or, where neither that nor
/// validation data are given, default_valid_fraction() of them. Then it sets the option, so that the training keeps it.
/// `say` hears what was chosen. Throws UsageError where a part that was asked for would be empty or all.
void hold_out_validation(TrainingSettings& a, TextPairs& texts, TextPairs& validation, const Say& say);

/// Throws FormatError where `option` names files to validate on that hold nothing.
void expect_validation(const char* option, bool named, bool empty);
/// Warns where most of the validation data is training data, too.
void warn_of_overlap(const TextPairs& training, const TextPairs& validation, const Say& say);
/// The same where --valid-text is part of the training text.
void warn_of_overlap(const TrainingSettings& a, const TextParts& texts, const Say& say);

}  // namespace heed::inline v0
