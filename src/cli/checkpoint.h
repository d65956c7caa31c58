// A model directory: config.json, model.safetensors and vocabulary.txt.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::cli {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";

/// What config.json says, by its "architecture": transformer (a translator) or language_model.
using ModelConfig = std::variant<TransformerConfig, LanguageModelConfig>;
std::string write_config(const ModelConfig& config);
/// Throws FormatError with `where`, the key, its value and what is permitted.
ModelConfig read_config(const std::string& json, const std::string& where);
/// Of a model's directory. Throws IoError and FormatError.
ModelConfig load_config(const std::string& directory);
/// The configuration of a Transformer or a LanguageModel; throws ShapeError where it is that of the other.
template <class Config>
Config expect_config(const ModelConfig& config, const std::string& directory);
template <>
TransformerConfig expect_config(const ModelConfig& config, const std::string& directory);
template <>
LanguageModelConfig expect_config(const ModelConfig& config, const std::string& directory);

template <class Model>
struct Checkpoint {
  std::unique_ptr<Model> model;  // float32, not in training
  Vocabulary vocabulary;
};
/// Throws IoError and FormatError, and ShapeError for a model of the other kind. A vocabulary that heed did not make
/// needs `trust`.
template <class Model>
Checkpoint<Model> load_checkpoint(const std::string& directory, bool trust = false);
extern template Checkpoint<Transformer> load_checkpoint(const std::string&, bool);
extern template Checkpoint<LanguageModel> load_checkpoint(const std::string&, bool);

/// The directory given, else $HEED_MODEL, else the bundled model: models/spa-eng in the program's directory or one of
/// the four above it (the root of a source tree), or share/heed/models/spa-eng under the install prefix. Throws IoError
/// saying where it looked.
std::string find_model(const std::string& given);

/// Whether two paths lead to one file or directory, there already or not.
bool same_file(const std::string& path, const std::string& other);

}  // namespace heed::cli
