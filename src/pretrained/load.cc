#include <algorithm>

#include "heed/checked.h"
#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "io/json.h"
#include "pretrained/family.h"
#include "pretrained/files.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargestConfig = 1 << 20;  // bytes

Keys read_keys(const std::string& directory) {
  const std::string where = directory + "/" + kConfigFile;
  nlohmann::json json =
      parse_json(DirectorySnapshot(directory, {kConfigFile}).read(kConfigFile, kLargestConfig), where);
  if (!json.is_object()) throw FormatError(where + ": it is no JSON object");
  return {std::move(json), where};
}

// Matrices in one half precision, where all are, and everything else as float32.
void widen(NamedTensors& tensors) {
  const auto all_are = [&](DType half) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const auto& t) { return t.second.rank() != 2 || t.second.dtype() == half; });
  };
  const bool keep = all_are(DType::f16) || all_are(DType::bf16);
  for (auto& [name, tensor] : tensors)
    if (!keep || tensor.rank() != 2) tensor = tensor.to(DType::f32);
}

}  // namespace

PretrainedModel load_pretrained(const std::string& directory) {
  const Keys config = read_keys(directory);
  const Described described = family_of(config).describe(config);
  const TensorFiles files(directory);
  PretrainedModel result{.model_type = config.text("model_type"), .module = nullptr};
  try {
    const ShapesOnly shapes_only;  // its tensors come from the files
    result.module = described.make();
  } catch (const ShapeError& e) {
    throw FormatError(config.where() + ": " + e.what());
  }
  NamedTensors tensors = read_named(
      described.names, *result.module, files.names(), [&](const std::string& name) { return files.tensor(name); },
      files.where());
  widen(tensors);
  try {
    result.module->adopt(tensors);
  } catch (const FormatError& e) {
    throw FormatError(directory + ": " + e.what());
  }
  result.module->eval();
  return result;
}

}  // namespace heed::inline v0
