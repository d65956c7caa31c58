// Low-rank adapters (heed/lora.h) of other makers' models, in the layout of PEFT.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/lora.h"
#include "heed/pretrained.h"

namespace heed::inline v0 {

/// Linear layers of another maker's model that are adapted.
enum class LowRankLayers : uint8_t {
  attention,  // those of queries and values (section 7.1), or what stacks them
  all,        // in the layers of its stacks
};
/// By the names that they have in transformers.
std::vector<AdaptedRows> linear_layers(const PretrainedModel& model, LowRankLayers which);
/// A head that tells the class of a text or a picture is trained whole. The model must be float32.
std::unique_ptr<LowRankAdapters> make_adapters(const PretrainedModel& model, LowRankLayers which,
                                               const LowRankOptions& options);

/// Adapters of the model of the directory `base` in the layout of PEFT: adapter_config.json ...
std::string adapter_config(const PretrainedModel& model, const LowRankAdapters& adapters, const std::string& base);
/// ... and adapter_model.safetensors, of `parameters` by the adapters' names. load() merges them.
void write_adapters(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters);
/// The directory of the model that a directory's adapters are for: `base`, or where that is empty what
/// adapter_config.json names. Empty where a directory has no adapters; then `base` must be, too, else UsageError.
/// Throws IoError and FormatError.
std::string adapted_base(const std::string& directory, const std::string& base = {});

}  // namespace heed::inline v0
