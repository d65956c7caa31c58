// Model directories (heed/model_files.h): load, save and inspect them.
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

/// The requirements of a config.json, known before memory is allocated.
struct ModelPlan {
  int64_t parameters = 0;         // numbers in model.safetensors
  std::vector<int64_t> pieces{};  // of vocabulary.txt, then of source_vocabulary.txt if there is one
  std::function<std::unique_ptr<Module>()> make{};
};

/// A kind of model in a directory. Built in: "transformer" (Transformer) and "language_model" (LanguageModel).
struct Architecture {
  std::string name;  // "architecture" in config.json
  /// Reads all keys except "architecture". Throws FormatError, or ShapeError for an impossible model.
  std::function<ModelPlan(ConfigReader& config)> plan;
  /// Writes these keys; returns false for a model of another kind.
  std::function<bool(const Module& model, ConfigWriter& config)> describe;
};

/// Makes a kind known to load(), save() and inspect() in all threads. Throws UsageError for a name that is taken.
void register_architecture(Architecture architecture);

// ---------------------------------------------------------------------------------------------- whole models

/// What a model is for, by its class.
enum class ModelKind : uint8_t {
  translator,      // Transformer
  language_model,  // LanguageModel
  text_encoder,    // TextEncoder
  image_encoder,   // ImageEncoder
  speech,          // SpeechTransformer
  other,           // register_architecture
};

/// A model and its tokenizers. Image models have none. Movable.
class StoredModel {
 public:
  /// One of heed's own models. `source`: the vocabulary of its input, if that is not `vocabulary`.
  StoredModel(std::unique_ptr<Module> module, Vocabulary vocabulary, std::optional<Vocabulary> source = {});
  /// A third-party model. An ImageEncoder has no tokenizer.
  StoredModel(PretrainedModel model, std::optional<Tokenizer> tokenizer, std::optional<Tokenizer> source = {});
  /// A third-party model with an unsupported tokenizer; `no_tokenizer` is the message of the error.
  StoredModel(PretrainedModel model, std::string no_tokenizer);

  Module& module() const { return *model_.module; }
  /// The tokenizer of the output. Throws UsageError if the model has none, FormatError if it is not supported.
  const Tokenizer& tokenizer() const;
  const Tokenizer& source_tokenizer() const { return source_tokenizer_ ? *source_tokenizer_ : tokenizer(); }

  ModelKind kind() const;
  /// Whether it is one of heed's own models; else it is a Hugging Face model.
  bool is_own() const { return model_.model_type.empty(); }
  /// "gpt2", for example; empty for heed's own models.
  const std::string& model_type() const { return model_.model_type; }
  /// The absolute path that load() read it from; empty for a model made otherwise.
  const std::string& path() const { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }

  /// The third-party model, for save_pretrained(). For heed's own models only `module` is set.
  const PretrainedModel& pretrained() const { return model_; }

  /// The vocabulary of one of heed's own models. Throws UsageError for third-party models.
  const Vocabulary& vocabulary() const;
  const Vocabulary& source_vocabulary() const { return source_vocabulary_ ? *source_vocabulary_ : vocabulary(); }
  bool has_source_vocabulary() const { return source_vocabulary_.has_value(); }

  /// Fills in missing options: first from the model's directory (PretrainedModel::generate and beam; heed's own
  /// language models use kReadableSampling), then from the defaults of generate() and translate(). Forbidden tokens,
  /// forbidden sequences and end tokens are those of both. Throws UsageError for sampling options without a temperature
  /// if the directory does not ask for sampling, for a shortest text (TokenRules::min_tokens) above the longest, and
  /// for several translations that are drawn greedily.
  GenerateOptions completed(GenerateOptions options) const;
  BeamOptions completed(BeamOptions options) const;
  /// `options` completed for sampling with `sampling`, or for beam search. `sample` decides; if absent, beam search if
  /// options.beam is set, else the model's directory. There are at least n_best beams. Throws UsageError for options of
  /// the other way: `sampling` for a search, a beam for sampling, a length_penalty for a single sampled translation.
  BeamOptions drawn_or_searched(BeamOptions options, std::optional<bool> sample, const Sampling& sampling) const;
  /// Whether a translation takes a text sentence by sentence unless the caller decides: false for BART and T5, which
  /// also summarise and answer, true for other models.
  bool takes_sentences() const { return model_type() != "bart" && model_type() != "t5"; }

  /// The model as `Model`; null if it is of another kind.
  template <class Model>
  Model* get_if() const {
    return dynamic_cast<Model*>(model_.module.get());
  }
  /// The model as `Model`. Throws UsageError if it is of another kind.
  template <class Model>
  Model& as() const {
    if (auto* const model = get_if<Model>()) return *model;
    throw UsageError("StoredModel::as: the model is of another kind; config.json of its directory says which");
  }

 private:
  PretrainedModel model_;
  std::optional<Vocabulary> vocabulary_, source_vocabulary_;
  std::optional<Tokenizer> tokenizer_, source_tokenizer_;
  std::string no_tokenizer_, path_;
};

/// Whether a path is a third-party model: a GGUF file, or a directory whose config.json has a "model_type" and no
/// "architecture" of heed's. Throws IoError and FormatError.
bool is_pretrained(const std::string& directory);

struct LoadOptions {
  bool trust = false;  // accept a vocabulary that heed did not make (see Vocabulary)
  /// The dtype of matrices in memory (Module::keep_matrices_as); default: as in the files.
  std::optional<DType> dtype{};
  std::string base{};  // for adapters: the directory of their model, instead of the one in adapter_config.json
};

/// Loads the model of a directory or of a GGUF file: heed's own, a third-party one (load_pretrained, load_tokenizer),
/// or adapters of one (heed/adapters.h), which are merged. Weights are float32, or have fewer bits if the file has. The
/// model is not in training. Everything is checked before memory is allocated, except that an unsupported tokenizer
/// only throws when it is used. Throws IoError, FormatError and UntrustedError, and ShapeError for a dtype that
/// matrices cannot have.
StoredModel load(const std::string& directory, const LoadOptions& options = {});
/// Loads from the files of a directory, which may be in memory; adapters are not supported.
StoredModel load(const DirectorySnapshot& files, const LoadOptions& options = {});

/// A model outside of files: write_parts() makes it from a model, make_model() turns it back.
struct ModelParts {
  std::string config;                     // config.json
  std::vector<std::string> vocabularies;  // Vocabulary::to_text: of what it writes, then of what it reads where that
                                          // has its own
  NamedTensors tensors;                   // its parameters, which share their memory
};
/// Throws UsageError for a third-party model.
ModelParts write_parts(const StoredModel& model);
/// Makes a model as load() does, but from parts; `where` names them in messages. Copies the tensors.
StoredModel make_model(const ModelParts& parts, const std::string& where, bool trust = false);
/// The model with the weights of another safetensors file, such as a checkpoint of its training. Matrices keep the
/// dtype of the file. Throws IoError, FormatError if the file belongs to another model, UsageError for a third-party
/// model.
StoredModel with_weights(const StoredModel& model, const std::string& file);

/// Writes config.json, model.safetensors and the vocabularies all at once (DirectoryTransaction). The directory must be
/// new or empty. With Existing::replace it may hold a heed model without training state, whose other files
/// (is_model_file) are removed, except README.md and licences: they stay if the model was loaded from this directory,
/// else IoError is thrown. Throws UsageError for another directory and for an unknown kind of model, FormatError for
/// values that are not finite in `dtype` (f32, f16, bf16), and IoError.
void save(const StoredModel& model, const std::string& directory, DType dtype = DType::f32,
          Existing existing = Existing::refuse);
/// Checks the directory as save() does. `given` begins its messages ("--to my-model"), `to_replace` says there how
/// Existing::replace is given.
void check_target(const std::string& given, const std::string& directory, Existing existing,
                  const std::string& to_replace);

struct AverageOptions {
  bool trust = false;                    // accept vocabularies that heed did not make
  Existing existing = Existing::refuse;  // what happens to a heed model in the directory, as in save()
};
/// Writes a model whose weights are the mean of the weights of several models, summed in double precision. The models
/// must have the same configuration, apart from dropout, and the same vocabulary; Hugging Face models keep their layout
/// and dtypes, and their other files must be equal. Throws UsageError for fewer than two models and for models that
/// differ, FormatError for damaged weights, and as save().
void average_models(const std::vector<std::string>& models, const std::string& directory,
                    const AverageOptions& options = {});

// ---------------------------------------------------------------------------------------------- their parts

inline constexpr uint64_t kLargestConfig = 1 << 20;                 // bytes
inline constexpr uint64_t kLargestVocabulary = uint64_t{64} << 20;  // bytes, as Vocabulary::load reads

/// The config.json of heed's own models.
using ModelConfig = std::variant<TransformerConfig, LanguageModelConfig>;
std::string write_config(const ModelConfig& config);
/// Throws FormatError with `where`, the key, its value and what is permitted.
ModelConfig read_config(const std::string& json, const std::string& where);
/// Reads config.json of a directory. Throws IoError and FormatError.
ModelConfig load_config(const std::string& directory);
/// The configuration of a Transformer or a LanguageModel. Throws UsageError for the other one.
template <class Config>
Config expect_config(const ModelConfig& config, const std::string& directory);
template <>
TransformerConfig expect_config(const ModelConfig& config, const std::string& directory);
template <>
LanguageModelConfig expect_config(const ModelConfig& config, const std::string& directory);

/// The files that make up a model, which belong together.
inline const std::vector<std::string> kModelFiles = {kConfigFile, kModelFile, kVocabularyFile, kSourceVocabularyFile};

/// The text of a vocabulary file of a model.
struct VocabularyText {
  std::string file;
  int64_t pieces = 0;  // rows of the model's embedding
  std::string text;
  bool operator==(const VocabularyText&) const = default;
};
/// The vocabularies of a model with this configuration, that of the output first. Throws IoError and FormatError.
std::vector<VocabularyText> read_vocabularies(const DirectorySnapshot& files, const ModelConfig& config);
/// Checks, before copies are written, that the vocabularies can be loaded and have as many pieces as the model's
/// embedding. Throws FormatError, without `trust` also for a vocabulary that heed did not make.
void check_vocabularies(const std::vector<VocabularyText>& vocabularies, const std::string& directory, bool trust);
/// Loads a vocabulary file, or that of a model's directory. Throws IoError and FormatError.
Vocabulary load_vocabulary(const std::string& path, bool trust);
/// Checks that a file of weights has as many numbers as the model. Throws FormatError.
void check_size(const ModelConfig& config, const SafetensorsFile& file);
/// Converts a tensor for saving; `path` names its file. Throws FormatError for values that are not finite in `dtype`.
Tensor converted(const Tensor& tensor, const std::string& name, DType dtype, const std::string& path);

/// Writes a model with its texts (by file name) and commits. Other files of a model in the directory (is_model_file)
/// are removed in the same transaction. Throws IoError, also if one of those is not a regular file.
void write_model(DirectoryTransaction& transaction, const std::map<std::string, std::string>& texts,
                 const NamedTensors& tensors, const Metadata& metadata);

/// The content of a directory before it is written.
enum class Holds : uint8_t {
  nothing,   // missing, or empty except for hidden files and lost+found
  model,     // a model without training state
  training,  // training state, also without a model yet
};
/// Throws UsageError for a directory with files that heed did not make. `given` begins the message ("--to my-model").
Holds expect_own(const std::string& given, const std::string& directory);

// ---------------------------------------------------------------------------------------------- looking at files

struct StoredTensor {
  std::string name, dtype;     // as in the file
  std::vector<int64_t> shape;  // after what `order` says
  uint64_t bytes = 0;
};

/// The header of a file of tensors.
struct StoredTensors {
  std::string file;    // its name
  std::string format;  // "safetensors", "npy", "npz"
  std::vector<StoredTensor> tensors{};
  uint64_t numbers = 0, bytes = 0;
  Metadata metadata{};
};

struct StoredVocabulary {
  std::string file;
  int64_t pieces = 0;  // 0 for a third-party vocabulary, which is not loaded
  uint64_t bytes = 0;
};

/// The content of a directory or of a file of tensors.
struct StoredFiles {
  std::vector<StoredTensors> tensors{};  // model.safetensors first
  std::optional<std::string> config{};   // the text of config.json
  std::vector<StoredVocabulary> vocabularies{};
  std::vector<std::pair<std::string, uint64_t>> others{};  // names and bytes
};

/// Reads the headers of a directory's files, or of one .safetensors, .gguf, .npy or .npz file. Throws IoError, and
/// FormatError if a file breaks its format or the directory has no model.
StoredFiles inspect(const std::string& path);
/// Checks that load() would accept the files as one model. Does not read the weights of heed's own models. Throws
/// FormatError.
void check(const StoredFiles& files, const std::string& directory);

}  // namespace heed::inline v0
