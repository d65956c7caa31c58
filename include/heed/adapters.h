// Low-rank adapters (heed/lora.h) of third-party models, in PEFT's layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/lora.h"
#include "heed/pretrained.h"

namespace heed::inline v0 {

/// The linear layers to adapt.
enum class LowRankLayers : uint8_t {
  attention,  // of queries and values (section 7.1), or the joined layer with both
  all,        // all linear layers of encoder and decoder layers
};
/// These layers, by their names in transformers.
std::vector<AdaptedRows> linear_layers(const PretrainedModel& model, LowRankLayers which);
/// Makes adapters for a float32 model. A classification head is trained as a whole.
std::unique_ptr<LowRankAdapters> make_adapters(const PretrainedModel& model, LowRankLayers which,
                                               const LowRankOptions& options);

/// PEFT's adapter_config.json for adapters of the model in the directory `base`.
std::string adapter_config(const PretrainedModel& model, const LowRankAdapters& adapters, const std::string& base);
/// Writes PEFT's adapter_model.safetensors from `parameters`, by the adapters' names. load() merges them.
void write_adapters(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters);
/// The directory of the base model of a directory's adapters: `base`, or if empty the one in adapter_config.json. Empty
/// if the directory has no adapters; throws UsageError then if `base` is not empty. Throws IoError and FormatError.
std::string adapted_base(const std::string& directory, const std::string& base = {});

}  // namespace heed::inline v0
