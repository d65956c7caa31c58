// A model directory: config.json, model.safetensors and vocabulary.txt.
#pragma once

#include <memory>
#include <string>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::cli {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";

std::string write_config(const TransformerConfig& config);
/// Throws FormatError with `where`, the key, its value and what is permitted.
TransformerConfig read_config(const std::string& json, const std::string& where);

struct Checkpoint {
  std::unique_ptr<Transformer> model;  // float32, not in training
  Vocabulary vocabulary;
};
/// Throws IoError and FormatError. A vocabulary that heed did not make needs `trust`.
Checkpoint load_checkpoint(const std::string& directory, bool trust = false);

/// The directory given, else $HEED_MODEL, else the bundled model: models/spa-eng in the program's directory or one of
/// the four above it (the root of a source tree), or share/heed/models/spa-eng under the install prefix. Throws IoError
/// saying where it looked.
std::string find_model(const std::string& given);

}  // namespace heed::cli
