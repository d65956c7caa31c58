// Validation pairs that are held out of the training pairs.
#pragma once

#include <string>

#include "heed/corpus.h"
#include "recipe/settings.h"

namespace heed::inline v0 {

/// Takes the validation pairs out of `texts`: the part valid_fraction or, if neither that nor validation data are
/// given, default_valid_fraction() of them; then it sets the option, so that the training keeps it. Calls `say` with
/// the choice. Throws UsageError if a part that was asked for would be empty or all.
void hold_out_validation(TrainingSettings& a, TextPairs& texts, TextPairs& validation, const Say& say);

/// Throws FormatError if `option` names files to validate on that hold nothing.
void expect_validation(const std::string& option, bool named, bool empty);
/// Warns if most of the validation data is training data, too.
void warn_of_overlap(const TextPairs& training, const TextPairs& validation, const Say& say);
/// Warns if valid_text is part of the training text.
void warn_of_overlap(const TrainingSettings& a, const TextParts& texts, const Say& say);

}  // namespace heed::inline v0
