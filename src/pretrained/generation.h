// Generation options of third-party models: generation_config.json, or the same keys in an older config.json.
#pragma once

#include <cstdint>
#include <span>

#include "heed/pretrained.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {

/// A field of transformers' GenerationConfig.
struct GenerationField {
  enum class Use : uint8_t {
    applied,        // as transformers does
    refused,        // heed does not support `what`: only null and `value` are accepted
    refused_value,  // heed does not support `what`: `value` is refused
    harmless        // does not affect texts, for the reason `what`
  };
  const char* key;
  Use use;
  const char* what = "";
  const char* value = "null";  // JSON
};

/// All fields, including obsolete ones, each once.
std::span<const GenerationField> generation_fields();

/// Sets a model's generation options. `of_config`: the keys are those of config.json. A setting that heed does not
/// support is kept as the reason for which generate() and translate() throw. Throws FormatError for values that are
/// malformed or out of range.
void read_generation(const Keys& keys, bool of_config, PretrainedModel& model);

}  // namespace heed::inline v0
