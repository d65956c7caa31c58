// Models that are adapters beside another one.
#pragma once

#include <string>

#include "heed/pretrained.h"

namespace heed::inline v0 {

/// The model of a directory with adapter_config.json: that of its base, with the adapters merged. Throws as
/// load_pretrained().
PretrainedModel load_adapted(const std::string& directory, const std::string& base);

/// The directory that a model's tokenizer comes from: its own, or of adapters without tokenizer files that of the base
/// (`named_base`, or the one that adapter_config.json names). Throws as adapted_base().
std::string tokenizer_directory(const std::string& directory, const std::string& named_base);

}  // namespace heed::inline v0
