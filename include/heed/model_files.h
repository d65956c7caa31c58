// The names of the files in a model's directory.
#pragma once

#include <string>

namespace heed::inline v0 {

// A model: what it is, its weights, and what its tokens are. source_vocabulary.txt where the source has its own.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kSourceVocabularyFile = "source_vocabulary.txt";
inline constexpr const char* kModelCardFile = "MODEL_CARD.md";

// Of a model that another one becomes by low-rank adapters (heed/lora.h), in the layout of PEFT: instead of config.json
// and model.safetensors.
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// Its training, where it has one.
inline constexpr const char* kStateFile = "training.json";
inline constexpr const char* kTensorsFile = "training.safetensors";
inline constexpr const char* kLogFile = "train.log.jsonl";
inline constexpr const char* kTrainOptionsFile = "train.toml";  // what the program was asked for: --resume needs it

}  // namespace heed::inline v0
