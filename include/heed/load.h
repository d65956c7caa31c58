// A model's directory (heed/model_files.h): loaded with its vocabularies, saved, and looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/models.h"
#include "heed/pretrained.h"
#include "heed/text.h"
#include "heed/tokenizer.h"

namespace heed::inline v0 {

// ---------------------------------------------------------------------------------------------- kinds of models

/// What a config.json asks for, before memory is taken for it.
struct ModelPlan {
  int64_t parameters = 0;         // numbers in model.safetensors
  std::vector<int64_t> pieces{};  // of vocabulary.txt, then of source_vocabulary.txt where there is one
  std::function<std::unique_ptr<Module>()> make{};
};

/// A kind of model that directories hold. heed has "transformer" (Transformer) and "language_model" (LanguageModel).
struct Architecture {
  std::string name;  // "architecture" in config.json
  /// Reads every other key. Throws FormatError, or ShapeError for a model that cannot be.
  std::function<ModelPlan(ConfigReader& config)> plan;
  /// Writes them; false where the model is of another kind.
  std::function<bool(const Module& model, ConfigWriter& config)> describe;
};

/// load(), save() and inspect() know it from now on, in all threads. Throws UsageError for a name that is taken.
void register_architecture(Architecture architecture);

// ---------------------------------------------------------------------------------------------- whole models

/// A model with its tokenizers, which one of pictures has not. Movable.
class StoredModel {
 public:
  /// One of heed's own. `source`: of what it reads, where that is not `vocabulary`.
  StoredModel(std::unique_ptr<Module> module, Vocabulary vocabulary, std::optional<Vocabulary> source = {});
  /// Another maker's. An ImageEncoder reads no text, and has no tokenizer.
  StoredModel(PretrainedModel model, std::optional<Tokenizer> tokenizer, std::optional<Tokenizer> source = {});
  /// One whose tokenizer heed does not read, which `no_tokenizer` says.
  StoredModel(PretrainedModel model, std::string no_tokenizer);

  Module& module() const { return *model_.module; }
  /// Of what it writes. Throws UsageError where the model has none, FormatError where heed does not read it.
  const Tokenizer& tokenizer() const;
  const Tokenizer& source_tokenizer() const { return source_tokenizer_ ? *source_tokenizer_ : tokenizer(); }

  /// "gpt2", or empty for one of heed's own.
  const std::string& model_type() const { return model_.model_type; }
  /// Another maker's, for save_pretrained(); of heed's own the module alone.
  const PretrainedModel& pretrained() const { return model_; }

  /// Vocabularies are what heed's own models have; throws UsageError for another maker's.
  const Vocabulary& vocabulary() const;
  const Vocabulary& source_vocabulary() const { return source_vocabulary_ ? *source_vocabulary_ : vocabulary(); }
  bool has_source_vocabulary() const { return source_vocabulary_.has_value(); }

  /// What the caller gave, then what the model's directory says (PretrainedModel::generate and beam; heed's own
  /// language models draw with kReadableSampling), then the defaults of generate() and translate(). Tokens and rows of
  /// tokens that may not be written, and tokens that end a text, are those of both. Throws UsageError for cuts of draws
  /// that the directory does not ask for, without a temperature.
  GenerateOptions completed(GenerateOptions options) const;
  BeamOptions completed(BeamOptions options) const;
  /// `options` with draws by `sampling`, or a search by a number of beams: as `sample` says, else a search where there
  /// is a number of beams, else as the model's directory says. At least n_best beams.
  BeamOptions drawn_or_searched(BeamOptions options, std::optional<bool> sample, const Sampling& sampling) const;

  /// The model as what it is. Throws UsageError where it is another kind.
  template <class Model>
  Model& as() const {
    if (auto* const model = dynamic_cast<Model*>(model_.module.get())) return *model;
    throw UsageError("StoredModel::as: the model is of another kind; config.json of its directory says which");
  }

 private:
  PretrainedModel model_;
  std::optional<Vocabulary> vocabulary_, source_vocabulary_;
  std::optional<Tokenizer> tokenizer_, source_tokenizer_;
  std::string no_tokenizer_;
};

/// Whether a path is another maker's model: a directory whose config.json has a "model_type", and no "architecture" of
/// heed's, or a GGUF file. Throws IoError and FormatError.
bool is_pretrained(const std::string& directory);

struct LoadOptions {
  bool trust = false;  // takes a vocabulary that heed did not make (see Vocabulary)
  /// What the matrices are kept as (Module::keep_matrices_as); as the files have them where it is not given.
  std::optional<DType> dtype{};
  std::string base{};  // of adapters: the directory of their model, instead of what adapter_config.json names
};

/// The model of a directory or of a GGUF file, heed's own or another maker's (load_pretrained, load_tokenizer), or
/// adapters of one (heed/adapters.h), which are merged: float32, or in fewer bits where the file has it so, and not in
/// training. Everything is checked before memory is taken; but a tokenizer that heed does not read is refused where it
/// is used. Throws IoError, FormatError and UntrustedError; ShapeError for a dtype that matrices cannot have.
StoredModel load(const std::string& directory, const LoadOptions& options = {});
/// The same of the files of a directory, which may lie in memory; without adapters.
StoredModel load(const DirectorySnapshot& files, const LoadOptions& options = {});

/// A model outside any file: what write_parts() makes of one, make_model() turns into it again.
struct ModelParts {
  std::string config;                     // config.json
  std::vector<std::string> vocabularies;  // Vocabulary::to_text: of what it writes, then of what it reads where that
                                          // has its own
  NamedTensors tensors;                   // its parameters, which share their memory
};
/// Throws UsageError for another maker's model.
ModelParts write_parts(const StoredModel& model);
/// As load(), which reads the parts from files: `where` names them in messages. The tensors are copied.
StoredModel make_model(const ModelParts& parts, const std::string& where, bool trust = false);
/// The model with the weights of another safetensors file, such as a checkpoint of its training; matrices are kept as
/// the file has them. Throws IoError; FormatError where the file is of another model; UsageError for another maker's.
StoredModel with_weights(const StoredModel& model, const std::string& file);

/// Writes a model: config.json, model.safetensors and its vocabularies, all at once (DirectoryTransaction). The
/// directory is new, empty, or holds a model of heed's without a training. Throws UsageError for another one, and for a
/// model of no known kind; FormatError for values that are not finite, or not in `dtype` (f32, f16, bf16); IoError.
void save(const StoredModel& model, const std::string& directory, DType dtype = DType::f32);

// ---------------------------------------------------------------------------------------------- their parts

inline constexpr uint64_t kLargestConfig = 1 << 20;                 // bytes
inline constexpr uint64_t kLargestVocabulary = uint64_t{64} << 20;  // bytes, as Vocabulary::load reads

/// What config.json says of heed's own models.
using ModelConfig = std::variant<TransformerConfig, LanguageModelConfig>;
std::string write_config(const ModelConfig& config);
/// Throws FormatError with `where`, the key, its value and what is permitted.
ModelConfig read_config(const std::string& json, const std::string& where);
/// Of a model's directory. Throws IoError and FormatError.
ModelConfig load_config(const std::string& directory);
/// The configuration of a Transformer or a LanguageModel; throws UsageError where it is that of the other.
template <class Config>
Config expect_config(const ModelConfig& config, const std::string& directory);
template <>
TransformerConfig expect_config(const ModelConfig& config, const std::string& directory);
template <>
LanguageModelConfig expect_config(const ModelConfig& config, const std::string& directory);

/// The files that make up a model, which belong together.
inline const std::vector<std::string> kModelFiles = {kConfigFile, kModelFile, kVocabularyFile, kSourceVocabularyFile};

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
/// A file of its own, or that of a model's directory. Throws IoError and FormatError.
Vocabulary load_vocabulary(const std::string& path, bool trust);
/// That a file of weights has as many numbers as the model. Throws FormatError.
void check_size(const ModelConfig& config, const SafetensorsFile& file);
/// The tensor as it is to be saved; `path` names its file. Throws FormatError for what is not finite in `dtype`.
Tensor converted(const Tensor& tensor, const std::string& name, DType dtype, const std::string& path);

/// Writes a model, with what texts it has by name, and commits. What the directory has of another model goes at the
/// same time. Throws IoError, for one where that is no regular file.
void write_model(DirectoryTransaction& transaction, const std::string& directory,
                 const std::map<std::string, std::string>& texts, const NamedTensors& tensors,
                 const Metadata& metadata);

/// What a directory that is to be written holds.
enum class Holds : uint8_t {
  nothing,   // not there, or empty but for hidden files and lost+found
  model,     // without a training
  training,  // or the beginning of one
};
/// Throws UsageError for a directory with files that heed did not make: it is left alone. `option` names it.
Holds expect_own(const char* option, const std::string& directory);

// ---------------------------------------------------------------------------------------------- looking at files

struct StoredTensor {
  std::string name, dtype;     // as the file has them
  std::vector<int64_t> shape;  // after what `order` says
  uint64_t bytes = 0;
};

/// A file of tensors: its header.
struct StoredTensors {
  std::string file;    // its name
  std::string format;  // "safetensors", "npy", "npz"
  std::vector<StoredTensor> tensors{};
  uint64_t numbers = 0, bytes = 0;
  Metadata metadata{};
};

struct StoredVocabulary {
  std::string file;
  int64_t pieces = 0;  // 0 for one that heed did not make, which is not loaded
  uint64_t bytes = 0;
};

/// What a directory, or a file of tensors, holds.
struct StoredFiles {
  std::vector<StoredTensors> tensors{};  // model.safetensors first
  std::optional<std::string> config{};   // the text of config.json
  std::vector<StoredVocabulary> vocabularies{};
  std::vector<std::pair<std::string, uint64_t>> others{};  // names and bytes
};

/// Reads the headers of a directory's files, or of one .safetensors, .gguf, .npy or .npz file. Throws IoError, and
/// FormatError where a file breaks its format or the directory holds no model.
StoredFiles inspect(const std::string& path);
/// That the files are those of one model: what load() would refuse. Of heed's own models the weights are not read.
/// Throws FormatError.
void check(const StoredFiles& files, const std::string& directory);

}  // namespace heed::inline v0
