// A family: what a model_type of config.json stands for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  /// `stored` are the names of the file's tensors.
  Described (*describe)(const Keys& config, const std::vector<std::string>& stored);
};

// One page of source each.
extern const Family kGpt2, kLlama, kGemma, kBert, kGptOss, kMarian, kT5, kVit, kWhisper;

/// Throws FormatError for a model_type that no family has.
const Family& family_of(const Keys& config);

// ------------------------------------------------------------------------------ what the pages have in common

/// As configurations name it ("gelu_new"). Throws FormatError for one that heed does not have.
Activation activation_of(const Keys& config, const std::string& key, const std::string& fallback);
/// Of width, heads, layers and pieces: whether a key has it, and not too much.
int64_t size_of(const Keys& config, const std::string& key);
/// The names of classes by id2label, two without names where there is none, and what is made of their scores, by
/// problem_type. Throws FormatError.
std::vector<std::string> class_labels(const Keys& config);
ClassScores class_scores(const Keys& config, size_t labels);
/// Queries see so many keys, themselves included; 0: all before them.
inline Window window_of(int64_t keys) { return keys > 0 ? Window{.left = keys - 1, .right = 0} : Window{}; }

/// Sizes of a decoder as Llama's configuration has them; `tied` where it does not say.
LanguageModelConfig decoder_sizes(const Keys& config, bool tied);
/// A layer of it: RMS norms, rotary positions, a gated feed-forward layer with SiLU, no biases. `epsilon` of the norms
/// where the configuration does not say.
TransformerLayerOptions decoder_layer(const Keys& config, const LanguageModelConfig& sizes, int64_t head_dim,
                                      double epsilon);

/// A language model, with one matrix for input and output where `tied`.
Described language_model(LanguageModelConfig config, LanguageModelDetails details, Names names);

}  // namespace heed::inline v0
