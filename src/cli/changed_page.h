// The page of a text with heads changed, beside the page of the model as it is.
#pragma once

#include <functional>

#include "cli/head_changes.h"
#include "cli/predicted.h"
#include "heed/load.h"
#include "heed/view.h"

namespace heed::cli {

struct SeenPage {
  Page page{};
  Predicted predicted{};
};

/// What `look` sees in the model, and beside it what it sees while heads are changed. Without changes the page alone.
/// Throws UsageError for heads that are not there.
Page page_with_changes(const GroupChanges& changes, const StoredModel& model, const std::function<SeenPage()>& look);

}  // namespace heed::cli
