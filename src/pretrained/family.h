// A family: what a model_type of config.json stands for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/models.h"
#include "heed/pretrained.h"
#include "pretrained/keys.h"
#include "pretrained/names.h"

namespace heed::inline v0 {

/// A model as its configuration describes it.
struct Described {
  std::function<std::unique_ptr<Module>()> make;
  Names names;
  PretrainedHead head{};
};

struct Family {
  std::vector<std::string> model_types;
  /// What heed does with the keys of config.json that transformers' class of the model_type reads.
  KeyTable (*keys)(const std::string& model_type);
  /// `config` is under that table.
  Described (*describe)(const Keys& config, const TensorSource& stored);
};

// One page of source each.
extern const Family kGpt2, kLlama, kGemma, kBert, kGptOss, kMarian, kT5, kVit, kWhisper;

/// Throws FormatError for a model_type that no family has.
const Family& family_of(const Keys& config);
/// All of them, in the order of docs/models.md.
const std::vector<const Family*>& all_families();

// ------------------------------------------------------------------------------ what the pages have in common

/// Keys that transformers reads for every kind of model.
KeyTable common_keys();
/// Those of decoders with rotary positions, with the defaults of Llama.
KeyTable decoder_keys();
/// Those of Marian, BART, M2M100 and Whisper: encoders and decoders, with the defaults of BART.
KeyTable bart_keys();

/// As configurations name it ("gelu_new"). Throws FormatError for one that heed does not have.
Activation activation_of(const Keys& config, const std::string& key);
/// The same for a name that `key` gives.
Activation activation_named(const Keys& config, const std::string& key, const std::string& name);
/// Of width, heads, layers and pieces: whether a key has it, and not too much.
int64_t size_of(const Keys& config, const std::string& key);
/// Two whole numbers in a list, in pixels.
ImageSize height_and_width(const Keys& keys, const std::string& key);
int64_t layers_of(const Keys& config, const std::string& key);
/// The class that wrote the file ("BertForMaskedLM"); empty where the file does not say.
std::string class_of(const Keys& config);
/// The names of classes by id2label, or num_labels without names.
std::vector<std::string> class_labels(const Keys& config);
/// What is made of the classes' scores, by problem_type.
ClassScores class_scores(const Keys& config, size_t labels);
PretrainedHead text_classes(const Keys& config);
/// "sliding_attention" or "full_attention" of each layer, by layer_types; empty where the file does not say.
std::vector<std::string> layer_types(const Keys& config, int64_t layers);
inline constexpr const char *kSlidingLayer = "sliding_attention", *kFullLayer = "full_attention";
/// Queries see so many keys, themselves included; 0: all before them.
inline Window window_of(int64_t keys) { return keys > 0 ? Window{.left = keys - 1, .right = 0} : Window{}; }

/// Sizes of a decoder as Llama's configuration has them.
LanguageModelConfig decoder_sizes(const Keys& config);
/// A layer of it: RMS norms, rotary positions, a gated feed-forward layer with SiLU, no biases.
TransformerLayerOptions decoder_layer(const Keys& config, const LanguageModelConfig& sizes, int64_t head_dim);

/// A language model with rules for a head "lm_head.weight", which is tied to `embedding` where the configuration and
/// the stored tensors say so. Of a class without a head: its states; of one for classes: their scores, by
/// "score.weight".
Described language_model(const Keys& config, LanguageModelConfig own, LanguageModelDetails details, Names names,
                         const std::string& embedding, const TensorSource& stored);

}  // namespace heed::inline v0
