// The names of the files in a model's directory.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "heed/cpp20.h"

namespace heed::inline v0 {

// A model: its configuration, weights and vocabulary; source_vocabulary.txt if the source has its own.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kSourceVocabularyFile = "source_vocabulary.txt";
inline constexpr const char* kModelCardFile = "MODEL_CARD.md";

// Low-rank adapters of another model (heed/lora.h) in PEFT's layout, instead of config.json and model.safetensors.
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// The state of its training, if any.
inline constexpr const char* kStateFile = "training.json";
inline constexpr const char* kTensorsFile = "training.safetensors";
inline constexpr const char* kLogFile = "train.log.jsonl";
inline constexpr const char* kTrainOptionsFile = "train.toml";          // the program's options, for --resume
inline constexpr const char* kAttentionFile = "attention.safetensors";  // maps of the report on it

// Weights in several files (model-00001-of-00002.safetensors) have an index. heed reads them and writes one file.
inline constexpr const char* kShardIndexFile = "model.safetensors.index.json";

/// Whether a file describes a model or has its licence: it stays true when the model is trained further.
inline bool is_lasting_text(std::string_view name) {
  constexpr std::string_view kNames[] = {kModelCardFile, "README.md", "LICENSE",    "LICENSE.md",   "LICENSE.txt",
                                         "NOTICE",       "NOTICE.md", "NOTICE.txt", "USE_POLICY.md"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// Whether a file of a directory may be written, replaced and removed by heed: the files above, the checkpoints of a
/// training (checkpoint-00000042.safetensors), and the files that transformers, tokenizers, sentence-transformers and
/// PEFT read beside a model, which a fine-tuned one takes over or replaces. Others are never touched: a journal
/// (DirectoryTransaction) that names one is not heed's.
inline bool is_model_file(std::string_view name) {
  constexpr std::string_view kNames[] = {
      kConfigFile, kModelFile, kVocabularyFile, kSourceVocabularyFile, kModelCardFile, kAdapterConfigFile, kAdapterFile,
      kStateFile, kTensorsFile, kLogFile, kTrainOptionsFile, kAttentionFile,
      // Hugging Face's: configuration, tokenizers of all kinds, preparation of pictures and sounds, sentence vectors.
      "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
      "added_tokens.json", "vocab.json", "source_vocab.json", "target_vocab.json", "vocab.txt", "merges.txt",
      "bpe.codes", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model",
      "source.spm", "target.spm", "chat_template.jinja", "chat_template.json", "preprocessor_config.json",
      "processor_config.json", "normalizer.json", "modules.json", "sentence_bert_config.json",
      "sentence_roberta_config.json", "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json",
      "config_sentence_transformers.json"};

  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;

  if (is_lasting_text(name) || name == kShardIndexFile) return true;
  constexpr std::string_view kCheckpoint = "checkpoint-", kShard = "model-", kEnd = ".safetensors";
  if (!name.ends_with(kEnd)) return false;
  name.remove_suffix(kEnd.size());
  const auto is_number = [](std::string_view digits, size_t fewest, size_t most) {
    return digits.size() >= fewest && digits.size() <= most &&
           digits.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (name.starts_with(kCheckpoint)) return is_number(name.substr(kCheckpoint.size()), 8, 19);
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.find(kOf);
  return name.starts_with(kShard) && of != std::string_view::npos && of >= kShard.size() &&
         is_number(name.substr(kShard.size(), of - kShard.size()), 5, 6) &&
         is_number(name.substr(of + kOf.size()), 5, 6);
}

}  // namespace heed::inline v0
