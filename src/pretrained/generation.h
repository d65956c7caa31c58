// How a third-party model writes: generation_config.json, or the same keys in an older config.json.
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
    refused,        // heed does not have `what`: only null and `value` are taken
    refused_value,  // heed does not have `what`: `value` is not taken
    harmless        // `what` says why no text depends on it
  };
  const char* key;
  Use use;
  const char* what = "";
  const char* value = "null";  // JSON
};

/// All of them, those that are no more among them, and each once.
std::span<const GenerationField> generation_fields();

/// Fills in what a model that writes is to be written with. `of_config`: these are the keys of config.json. What heed
/// does not have is kept as the reason why generate() and translate() refuse. Throws FormatError for values that are
/// malformed or out of range.
void read_generation(const Keys& keys, bool of_config, PretrainedModel& model);

}  // namespace heed::inline v0
