// Models of other makers: directories as Hugging Face's transformers writes them (config.json with a "model_type",
// model.safetensors in one file or several), and GGUF files, llama.cpp's.
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

/// What the head of a TextEncoder, or of an ImageEncoder, is for.
enum class HeadTask : uint8_t { none, masked_words, text_classes, token_classes, answers, picture_classes };

/// What is made of the scores of classes.
enum class ClassScores : uint8_t {
  one_of_all,  // probabilities that sum to 1: a text or a picture is of one class
  each,        // a probability each: it may be of several
  values       // as they are: no classes, but numbers (a regression)
};

struct PretrainedHead {
  HeadTask task = HeadTask::none;
  std::vector<std::string> labels{};  // of the classes
  ClassScores scores = ClassScores::one_of_all;
};

/// A model of another maker.
struct PretrainedModel {
  std::string model_type;  // "gpt2", as config.json says
  std::string config{};    // JSON: config.json, or what a GGUF file says in its keys
  /// A LanguageModel, TextEncoder, ImageEncoder, SpeechTransformer or Transformer; not in training.
  std::unique_ptr<Module> module;
  /// How it writes by default, as transformers does: generation_config.json, or the same keys of an older config.json.
  /// `generate` is for a LanguageModel (a SpeechTransformer has its `stop` alone), `beam` for a Transformer. A GGUF
  /// file says which tokens end a text; the rest is kReadableSampling.
  GenerateOptions generate{};
  BeamOptions beam{};
  Sampling sampling{};                    // what draws are made with, where the caller wants draws
  std::vector<std::string> stop_texts{};  // texts that end what is written, as its last part
  /// What `refused` of `generate` and `beam` says counts only while the caller gives no temperature, no number of beams
  /// and no sampling.
  bool refused_unless_chosen = false;
  PretrainedHead head{};                             // of a TextEncoder or an ImageEncoder
  std::shared_ptr<const PretrainedLayout> layout{};  // for save_pretrained: the files that it came from; none for GGUF
};

/// The model of a directory: gpt2; llama, mistral, qwen2, qwen3, phi3; gemma, gemma2, gemma3_text; gpt_oss with one
/// expert; bert, distilbert, roberta, xlm-roberta, mpnet; vit; marian, bart, m2m_100, t5; whisper. Tensors are used
/// where the files are mapped, but for those that must be turned or joined; matrices in half precision
/// stay so (Module::keep_matrices_as).
///
/// Or the model of a GGUF file (it begins with these letters; versions 2 and 3): bert, gemma, gemma2, gpt2, llama,
/// qwen2 and qwen3 in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K. Matrices stay so, as
/// DType::q8, q4_0, ...; where several that must be joined differ, they become float16.
///
/// Throws IoError, and FormatError for another kind of model, for keys of config.json and facts of GGUF that would
/// change results and that heed does not follow, and for tensors that are missing, misshapen or unknown.
PretrainedModel load_pretrained(const std::string& path);
/// The same of the files of a directory, which may lie in memory.
PretrainedModel load_pretrained(const DirectorySnapshot& files);

/// Of two vectors. Distances are negative, so that more is always nearer.
enum class Similarity : uint8_t { cosine, dot, euclidean, manhattan };

/// How sentence-transformers makes a text's vector of the states of its tokens.
struct SentenceModules {
  enum class Pooling : uint8_t { first, maximum, mean, mean_sqrt_length, weighted_mean, last };
  /// What is done with the pooled vector: normalised to length 1, or where `weight` is defined activation(weight x +
  /// bias).
  struct Step {
    Tensor weight{}, bias{};
    std::optional<Activation> activation{};
  };
  std::vector<Pooling> pooling{Pooling::mean};  // of several, the vectors stand one behind the other
  std::vector<Step> steps{};
  int64_t longest = 0;      // tokens of a text, special ones counted; 0: as many as the model takes
  bool lower_case = false;  // makes it so
  std::string prompt{};     // put in front of each text
  std::map<std::string, std::string> prompts{};  // by name, which the prompt may be set to
  bool pools_prompt = true;                      // false: states of the prompt's tokens are left out
  int64_t width = 0;                             // numbers of a vector that are kept; 0: all
  Similarity similarity = Similarity::cosine;    // by which the model's vectors are compared
};

/// That of a directory's modules.json, and of the files beside it. Without one, as sentence-transformers has it: the
/// last state of a decoder that writes (ForCausalLM), else the mean of the states. Throws IoError, and FormatError for
/// modules that heed does not have.
SentenceModules load_sentence_modules(const std::string& directory);

/// The encoder of a directory (bert, distilbert, roberta, xlm-roberta, mpnet; vit) with a head that tells the class of
/// a text, or of a picture: its own, where that knows all `labels`; else a new one, drawn from default_generator(),
/// whose classes they are, and config.json will say so (architectures, id2label, label2id). Matrices are float32 then.
/// Throws as load_pretrained(), and ShapeError for a head of fewer than two classes.
PretrainedModel load_classifier(const std::string& directory, const std::vector<std::string>& labels);
/// The names of a model's classes, by number (id2label); empty where config.json has none. Throws FormatError.
std::vector<std::string> labels_of(const PretrainedModel& model);

/// Writes a model in the layout that it came in: tensors by their names, in their dtypes, in one model.safetensors, and
/// config.json, the tokenizer's and other texts as they were. The directory is new or empty; all is there or nothing.
/// Throws UsageError for another one and for a model of a GGUF file, FormatError for values that are not finite in the
/// dtype, IoError.
void save_pretrained(const PretrainedModel& model, const std::string& directory);

/// What preprocessor_config.json of a directory says is done to a picture for its ImageEncoder, as transformers'
/// ViTImageProcessor and DeiTImageProcessor do it. Throws IoError, FormatError.
ImagePreparation load_image_preparation(const std::string& directory);
/// The parts of that: model.safetensors with these values of the module's parameters, by heed's names, ...
void write_pretrained(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters);
/// ... and the texts beside it, by name.
std::map<std::string, std::string> pretrained_texts(const PretrainedModel& model);
/// The module's parameters as they are, by the names of the files, which model.safetensors needs no more than. Throws
/// UsageError for a model of a GGUF file.
NamedTensors pretrained_tensors(const PretrainedModel& model);

}  // namespace heed::inline v0
