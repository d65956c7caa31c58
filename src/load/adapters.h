// Models stored as adapters of another model.
#pragma once

#include <string>

#include "heed/pretrained.h"

namespace heed::inline v0 {

/// Loads the base model of a directory with adapter_config.json, with the adapters merged. Throws as load_pretrained().
PretrainedModel load_adapted(const std::string& directory, const std::string& base);

/// The directory of a model's tokenizer: its own, or, for adapters without tokenizer files, that of the base
/// (`named_base`, or the one in adapter_config.json). Throws as adapted_base().
std::string tokenizer_directory(const std::string& directory, const std::string& named_base);

}  // namespace heed::inline v0
