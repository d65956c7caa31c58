// A family of models: maps a model_type of config.json to heed's layers.
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

/// A model as described by its configuration.
struct Described {
  std::function<std::unique_ptr<Module>()> make;
  Names names;
  PretrainedHead head{};
};

struct Family {
  std::vector<std::string> model_types;
  /// How heed handles each config.json key that transformers' class of the model_type reads.
  KeyTable (*keys)(const std::string& model_type);
  /// `config` uses that table.
  Described (*describe)(const Keys& config, const TensorSource& stored);
};

// Each has a source file.
extern const Family kGpt2, kLlama, kGemma, kBert, kGptOss, kMarian, kT5, kVit, kWhisper;

/// Throws FormatError for an unknown model_type.
const Family& family_of(const Keys& config);
/// All families, in the order of docs/models.md.
const std::vector<const Family*>& all_families();

// ------------------------------------------------------------------------------ what the pages have in common

/// Keys that transformers reads for every kind of model.
KeyTable common_keys();
/// Keys of decoders with rotary positions, with Llama's defaults.
KeyTable decoder_keys();
/// Keys of the encoder-decoders Marian, BART, M2M100 and Whisper, with BART's defaults.
KeyTable bart_keys();

/// The activation that `key` names ("gelu_new"). Throws FormatError for one that heed does not support.
Activation activation_of(const Keys& config, const std::string& key);
/// The activation `name`; `key` is where it came from, for the message.
Activation activation_named(const Keys& config, const std::string& key, const std::string& name);
/// A width, or a number of heads or pieces. Throws FormatError if `key` is missing or out of range.
int64_t size_of(const Keys& config, const std::string& key);
/// The id that ends a text: "eos_token_id", or the first of its list. Throws FormatError if the key is null.
int32_t end_of_text(const Keys& config);
/// A list of two whole numbers, height and width in pixels.
ImageSize height_and_width(const Keys& keys, const std::string& key);
int64_t layers_of(const Keys& config, const std::string& key);
/// The class that wrote the file ("BertForMaskedLM"); empty if not given.
std::string class_of(const Keys& config);
/// The names of classes from id2label, or "LABEL_0", ... for num_labels classes.
std::vector<std::string> class_labels(const Keys& config);
/// How the classes' scores are interpreted, from problem_type.
ClassScores class_scores(const Keys& config, size_t labels);
PretrainedHead text_classes(const Keys& config);
/// PretrainedHead::missing for a head of which the files lack `tensor`.
std::string head_without(const Keys& config, const std::string& tensor);
/// PretrainedHead::missing for a class with a head that heed does not have.
std::string head_unknown(const Keys& config);
/// "sliding_attention" or "full_attention" for each layer, from layer_types; empty if not given.
std::vector<std::string> layer_types(const Keys& config, int64_t layers);
inline constexpr const char *kSlidingLayer = "sliding_attention", *kFullLayer = "full_attention";
/// A causal window: each query sees `keys` keys, its own position included; 0: all before it.
inline Window window_of(int64_t keys) { return keys > 0 ? Window{.left = keys - 1, .right = 0} : Window{}; }

/// Sizes of a decoder from the keys of Llama's configuration.
LanguageModelConfig decoder_sizes(const Keys& config);
/// A layer of Llama: RMS norms, rotary positions, a gated feed-forward layer with SiLU, no biases.
TransformerLayerOptions decoder_layer(const Keys& config, const LanguageModelConfig& sizes, int64_t head_dim);

/// A language model with a head "lm_head.weight", tied to `embedding` if the configuration and the stored tensors say
/// so. A class without a head gives states, and so does a model whose files lack the head of their class; a
/// classification class gives scores, from "score.weight".
Described language_model(const Keys& config, LanguageModelConfig own, LanguageModelDetails details, Names names,
                         const std::string& embedding, const TensorSource& stored);

}  // namespace heed::inline v0
