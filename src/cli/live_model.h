// The model that heed attend --live puts into a page.
#pragma once

#include <cstdint>
#include <string>

#include "heed/load.h"
#include "heed/view.h"

namespace heed::cli {

/// A model of texts, heed's own or another maker's, as a page takes it: its weights as float16, with what NOTICE of its
/// directory says. Throws UsageError for other models, a GGUF file, and one that is too large; FormatError for weights
/// that float16 does not hold.
LiveModel live_model(const StoredModel& model, const std::string& directory, int64_t beam, int64_t generate);

}  // namespace heed::cli
