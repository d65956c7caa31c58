// A model directory: config.json, model.safetensors and vocabulary.txt; source_vocabulary.txt where the source has its
// own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed::cli {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kSourceVocabularyFile = "source_vocabulary.txt";
inline constexpr uint64_t kLargestConfig = 1 << 20;                 // bytes
inline constexpr uint64_t kLargestVocabulary = uint64_t{64} << 20;  // bytes, as Vocabulary::load reads

/// What config.json says, by its "architecture": transformer (a translator) or language_model.
using ModelConfig = std::variant<TransformerConfig, LanguageModelConfig>;
std::string write_config(const ModelConfig& config);
/// Throws FormatError with `where`, the key, its value and what is permitted.
ModelConfig read_config(const std::string& json, const std::string& where);
/// Of a model's directory. Throws IoError and FormatError.
ModelConfig load_config(const std::string& directory);
/// Before memory is taken for what a lying config.json asks for. Throws FormatError.
template <class Config>
void check_size(const Config& config, const SafetensorsFile& file);
/// The same where the parameters are counted already, and for the pieces of a vocabulary.
void check_parameters(const std::string& path, uint64_t has, const ModelConfig& config);
void check_pieces(const std::string& directory, const char* file, int64_t has, int64_t needs);
/// A vocabulary of a model as its file has it.
struct VocabularyText {
  std::string file;
  int64_t pieces = 0;  // as many as the model embeds
  std::string text;
  bool operator==(const VocabularyText&) const = default;
};
/// Those that a model of this configuration has, that of what it writes first. Throws IoError and FormatError.
std::vector<VocabularyText> read_vocabularies(const DirectorySnapshot& files, const ModelConfig& config);
/// Before copies of them are written: that they can be loaded, and have the pieces that the model embeds. Throws
/// FormatError, without `trust` also for one that heed did not make.
void check_vocabularies(const std::vector<VocabularyText>& vocabularies, const std::string& directory, bool trust);
/// From a snapshot, for one that has this file. Throws FormatError.
Vocabulary read_vocabulary(const DirectorySnapshot& files, const std::string& directory, const char* name, bool trust);
/// A file of its own, or that of a model's directory. Throws IoError and FormatError.
Vocabulary load_vocabulary(const std::string& path, bool trust);
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
template <>
struct Checkpoint<Transformer> {
  std::unique_ptr<Transformer> model;
  Vocabulary vocabulary;         // of what it writes
  Vocabulary source_vocabulary;  // of what it reads: the same unless the directory has another
};
/// Throws IoError and FormatError, and ShapeError for a model of the other kind. A vocabulary that heed did not make
/// needs `trust`.
template <class Model>
Checkpoint<Model> load_checkpoint(const std::string& directory, bool trust = false);
extern template Checkpoint<Transformer> load_checkpoint(const std::string&, bool);
extern template Checkpoint<LanguageModel> load_checkpoint(const std::string&, bool);

/// The files that make up a model, which belong together.
inline const std::vector<std::string> kModelFiles = {kConfigFile, kModelFile, kVocabularyFile, kSourceVocabularyFile};

/// Writes a model, with what texts it has by name, and commits. What the directory has of another model goes at the
/// same time. Throws IoError, for one where that is no regular file.
void write_model(DirectoryTransaction& transaction, const std::string& directory,
                 const std::map<std::string, std::string>& texts, const NamedTensors& tensors,
                 const Metadata& metadata);

/// What a directory that heed is to write holds.
enum class Holds {
  nothing,   // not there, or empty but for hidden files and lost+found
  model,     // without a training
  training,  // or the beginning of one
};
/// Throws ShapeError for a directory with files that heed did not make: it is left alone. `option` names it.
Holds expect_own(const char* option, const std::string& directory);

/// The directory given, else $HEED_MODEL, else the bundled model: models/spa-eng in the program's directory or one of
/// the four above it (the root of a source tree), or share/heed/models/spa-eng under the install prefix. Throws IoError
/// saying where it looked.
std::string find_model(const std::string& given);

/// Whether two paths lead to one file or directory, there already or not.
bool same_file(const std::string& path, const std::string& other);

/// Throws ShapeError where what is to be written is one of the files that are read; empty names are none. `option`
/// names it. Pipes and devices may be both.
void expect_other_file(const char* option, const std::string& output, const std::vector<std::string>& inputs);
/// kModelFiles in a directory.
std::vector<std::string> model_paths(const std::string& directory);

}  // namespace heed::cli
