// Models that are adapters beside another one.
#pragma once

#include <string>

#include "heed/pretrained.h"

namespace heed::inline v0 {

/// The model of a directory with adapter_config.json: that of its base, with the adapters merged. Throws as
/// load_pretrained().
PretrainedModel load_adapted(const std::string& directory, const std::string& base);

}  // namespace heed::inline v0
