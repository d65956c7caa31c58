// How the loss of given lines depends on each head: heed attend --importance.
#pragma once

#include <string>

#include "cli/looking.h"
#include "heed/attended.h"

namespace heed::cli {

/// Of the lines of a.importance. Throws UsageError for a model that has no loss, and for --dtype.
HeadImportance importance_of(const AttendArguments& a);
/// A table for each kind of attention. Throws UsageError likewise, and for options that it has no use for.
std::string importance_in_text(const AttendArguments& a);

}  // namespace heed::cli
