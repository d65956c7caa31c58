// Third-party models: Hugging Face model directories (config.json with a "model_type", model.safetensors in one file or
// several) and llama.cpp's GGUF files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/io.h"
#include "heed/models.h"

namespace heed::inline v0 {

struct PretrainedLayout;

/// The task of the head of a TextEncoder or an ImageEncoder.
enum class HeadTask : uint8_t { none, masked_words, text_classes, token_classes, answers, picture_classes };

/// How the scores of classes are interpreted.
enum class ClassScores : uint8_t {
  one_of_all,  // probabilities that sum to 1: an input has exactly one class
  each,        // a probability per class: an input may have several
  values       // unchanged: numbers instead of classes (a regression)
};

struct PretrainedHead {
  HeadTask task = HeadTask::none;
  std::vector<std::string> labels{};  // of the classes
  ClassScores scores = ClassScores::one_of_all;
  /// Not empty if config.json names a class with a head that the model lacks: the reason, to follow "a model ". The
  /// task is then `none`.
  std::string missing{};
};

/// A third-party model.
struct PretrainedModel {
  std::string model_type;  // "gpt2", as config.json says
  std::string config{};    // JSON: config.json, or a GGUF file's facts under the same keys
  /// A LanguageModel, TextEncoder, ImageEncoder, SpeechTransformer or Transformer; not in training.
  std::unique_ptr<Module> module;
  /// Default generation options, as in transformers: from generation_config.json, or the same keys of an older
  /// config.json. `generate` applies to a LanguageModel (a SpeechTransformer uses only its `stop`), `beam` to a
  /// Transformer. A GGUF file sets the tokens that end a text; the sampling is kReadableSampling.
  GenerateOptions generate{};
  BeamOptions beam{};
  Sampling sampling{};                    // used if the caller asks for sampling
  std::vector<std::string> stop_texts{};  // texts that end the output, which includes them
  /// true: `refused` of `generate` and `beam` only applies if the caller sets no temperature, beam size or sampling.
  bool refused_unless_chosen = false;
  PretrainedHead head{};
  std::shared_ptr<const PretrainedLayout> layout{};  // the source files, for save_pretrained; none for GGUF
};

/// Loads the model of a directory: gpt2; llama, mistral, qwen2, qwen3, phi3; gemma, gemma2, gemma3_text; gpt_oss with
/// one expert; bert, distilbert, roberta, xlm-roberta, mpnet; vit; marian, bart, m2m_100, t5; whisper. Tensors are
/// views of the mapped files, except those that must be transposed or joined. Matrices in half precision keep their
/// dtype (Module::keep_matrices_as).
///
/// config.json's "architectures" names the class of the model and so its head. If the files lack a tensor of that head,
/// or heed does not have it, the model loads without a head (PretrainedHead::missing). If "architectures" names no
/// head, a head that predicts words is used if the files have all of it. Stored tensors of other heads are ignored.
///
/// Or loads a GGUF file (recognised by its first four bytes; versions 2 and 3): bert, gemma, gemma2, gpt2, llama,
/// qwen2 and qwen3 in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K. Matrices keep their type
/// (DType::q8, q4_0, ...). Matrices that must be joined and have different types become float16.
///
/// Throws IoError. Throws FormatError for other kinds of models, for config.json keys and GGUF facts that affect
/// results and that heed does not support, and for tensors that are missing, unknown or of the wrong shape.
PretrainedModel load_pretrained(const std::string& path);
/// Loads from the files of a directory, which may be in memory.
PretrainedModel load_pretrained(const DirectorySnapshot& files);

/// How two vectors are compared. euclidean and manhattan are negative distances, so that a larger value always means
/// more similar.
enum class Similarity : uint8_t { cosine, dot, euclidean, manhattan };

/// How sentence-transformers computes a text's vector from the states of its tokens.
struct SentenceModules {
  enum class Pooling : uint8_t { first, maximum, mean, mean_sqrt_length, weighted_mean, last };
  /// One step on the pooled vector: activation(weight x + bias) if `weight` is defined, else normalisation to length 1.
  struct Step {
    Tensor weight{}, bias{};
    std::optional<Activation> activation{};
  };
  std::vector<Pooling> pooling{Pooling::mean};  // with several, their vectors are concatenated
  std::vector<Step> steps{};
  int64_t longest = 0;                           // most tokens of a text, special tokens included; 0: the model's limit
  bool lower_case = false;                       // lowercase the text first
  std::string prompt{};                          // prepended to each text
  std::map<std::string, std::string> prompts{};  // named alternatives for `prompt`
  bool pools_prompt = true;                      // false: pooling skips the prompt's tokens
  int64_t width = 0;                             // leading numbers of the vector to keep; 0: all
  Similarity similarity = Similarity::cosine;    // how the model's vectors are meant to be compared
};

/// Reads a directory's modules.json and the files that it names. Without modules.json, as in sentence-transformers: the
/// last state for a decoder (ForCausalLM), else the mean of the states. Throws IoError, and FormatError for modules
/// that heed does not support.
SentenceModules load_sentence_modules(const std::string& directory);

/// Loads the encoder of a directory (bert, distilbert, roberta, xlm-roberta, mpnet; vit) with a head that classifies
/// texts or images. The head is the model's own if that has all `labels`. Otherwise it is a new one for `labels`,
/// initialised from default_generator(); the model's config is changed accordingly (architectures, id2label, label2id)
/// and its matrices are float32. Throws as load_pretrained(), and ShapeError for fewer than two classes.
PretrainedModel load_classifier(const std::string& directory, const std::vector<std::string>& labels);
/// The names of a model's classes by index (id2label); empty if config.json has none. Throws FormatError.
std::vector<std::string> labels_of(const PretrainedModel& model);

/// Whether saving may replace the model that a directory holds.
enum class Existing : uint8_t { refuse, replace };

/// Writes a model in its original layout: tensors with their original names and dtypes in one model.safetensors, and
/// unchanged copies of config.json, the tokenizer's files and other texts. The directory must be new or empty. With
/// Existing::replace it may be the one that the model was loaded from: weights and config.json are replaced, and other
/// files stay. Either all files are written or none. Throws UsageError for another directory and for a model from a
/// GGUF file, FormatError for values that are not finite in the dtype, and IoError.
void save_pretrained(const PretrainedModel& model, const std::string& directory, Existing existing = Existing::refuse);
/// Throws UsageError unless the directory is new or empty, as it must be for another model than its own. `given` begins
/// the message ("--to my-model").
void check_pretrained_target(const std::string& given, const std::string& directory);

/// How preprocessor_config.json of a directory prepares an image for its ImageEncoder, as in transformers'
/// ViTImageProcessor and DeiTImageProcessor. Throws IoError, FormatError.
ImagePreparation load_image_preparation(const std::string& directory);
/// Writes the model.safetensors of save_pretrained with these values of the module's parameters, by heed's names.
void write_pretrained(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters);
/// The texts that save_pretrained writes next to it, by file name.
std::map<std::string, std::string> pretrained_texts(const PretrainedModel& model);
/// The files of the directories that a sentence-transformers model's modules.json names, by path
/// ("1_Pooling/config.json"): config.json and model.safetensors of each, as they were when the model was loaded.
/// save_pretrained copies them, too. Empty for other models. Throws IoError, and FormatError for more than 1 GiB.
std::map<std::string, std::string> module_files(const PretrainedModel& model);
/// The module's parameters under their names in the files: all the tensors that model.safetensors needs. Throws
/// UsageError for a model from a GGUF file.
NamedTensors pretrained_tensors(const PretrainedModel& model);

}  // namespace heed::inline v0
