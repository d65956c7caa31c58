// The options of a training as they are used: completed and checked.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/models.h"
#include "heed/recipe.h"
#include "heed/text.h"
#include "heed/train.h"
#include "recipe/choose.h"

namespace heed::inline v0 {

struct TrainingSettings {
  TrainingRequest given{};         // with the options of files and presets, and those that were chosen
  std::set<std::string> unused{};  // options that this kind of training does not have
  std::string tuned{};             // tuned_directory()
  bool open = false;               // absent options are still to be chosen, by choose_options()
  bool only_described = false;     // no training: describe_options()
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

  // The values of `given`, or their defaults. Shape options set both configurations, where both have the field.
  std::string columns = "1,2", prefix{}, source_language{}, target_language{};
  double valid_fraction = 0;  // absent: 0.1 of a text, default_valid_fraction() of pairs
  std::string model{}, resume{}, vocabulary{}, source_vocabulary{}, init{}, preset = "small";
  bool trust = false, separate_vocabularies = false, skip_bad_lines = false;
  int64_t threads = 0;
  std::string vocab_type = "subwords";
  double character_coverage = 0.9995;
  int64_t lora = 0;       // rank; 0: all parameters are trained
  double lora_alpha = 0;  // 0: twice the rank
  std::string lora_layers = "attention";
  std::string html{}, html_lines{}, tensorboard{}, timeline{}, validate_by = "loss";
  std::string schedule = "inverse-square-root";
  TransformerConfig translator{.max_positions = 512};
  LanguageModelConfig language_model{};
  TrainOptions options{.bleu_sentences = 100};
  double rank_timeout = 600;

  Communicator* ranks() const { return given.ranks; }
  bool leads() const {
    return !given.ranks || given.ranks->rank() == 0;
  }  // reads and writes the directory, and reports
  bool of_text() const { return !given.text.empty(); }
  bool of_labels() const { return !given.labelled.empty(); }
  bool of_pairs() const { return !pairs().empty() || given.pairs_in_memory; }
  bool tunes() const { return !tuned.empty(); }
  int64_t vocab_size() const { return translator.vocab_size; }
  PairFiles pairs() const { return {given.pairs, given.source, given.target, skip_bad_lines}; }
  PairFiles valid_pairs() const { return {given.valid_pairs, given.valid_source, given.valid_target, skip_bad_lines}; }

  /// How messages call an option, by the name of its field.
  std::string name(const std::string& field) const;
  /// "--max-updates 100" or "max_updates 100".
  std::string named(const std::string& field, const std::string& value) const { return name(field) + " " + value; }

  /// fill_in() into `given`, and the values.
  void fill_in(const TrainingRequest& more);
  /// Replaces an option.
  void set(const std::string& field, const std::string& value);
  /// The values of `given`.
  void resolve();
};

/// Completes a request: takes options from `config`, then from the training that `resume` names, then the shape of
/// `init`, then `preset` with its defaults. Without `preset`, takes what was chosen for the training in `model`; if it
/// holds none, that is left open. A Hugging Face model (tuned_directory()) has its shape, and usual values for
/// fine-tuning instead of a preset. Throws UsageError for options of another kind of training, FormatError for a
/// configuration with others and for a kTrainOptionsFile that heed did not write.
TrainingSettings completed(const TrainingRequest& request, bool only_described = false);

/// The files that are read.
std::vector<std::string> inputs_of(const TrainingSettings& s);

/// Chooses what is open (choose_defaults()), and returns what was chosen.
std::vector<Choice> choose_options(TrainingSettings& s, const TrainFacts& facts);

/// All options as kTrainOptionsFile, after the line that marks it.
std::string options_to_keep(const TrainingSettings& s);
/// The options that were given or chosen as a file, with paths as they were given.
std::string options_for_card(const TrainingSettings& s);

/// The columns of source and target of "2,1". Throws UsageError.
std::pair<int, int> parse_columns(const TrainingSettings& s);
/// Throws UsageError if pairs, source and target do not fit together, or valid_pairs, valid_source and valid_target.
void check_pair_files(const TrainingSettings& s);
void check_valid_pair_files(const TrainingSettings& s);

/// Throws ShapeError, which names the option, if a field of the configuration is out of range.
void check_shape(const TrainingSettings& s, const TransformerConfig& shape);
void check_shape(const TrainingSettings& s, const LanguageModelConfig& shape);

/// Throws UsageError if `field` names a model of the other kind than the data is for.
void expect_kind(const TrainingSettings& s, const char* field, const std::string& directory, const ModelConfig& config);

/// Vocabulary::train(); messages about a size that does not fit begin with `option`.
Vocabulary learn_vocabulary(const std::string& option, const std::vector<std::string>& lines,
                            const VocabularyOptions& options);

/// Throws FormatError where a parameter of the model that a training begins with is NaN or infinite.
void expect_finite(const Module& model);

/// The directory that the model of the training comes from: `model`, if it holds a training of a Hugging Face model,
/// else `init`, if it is one. Empty for heed's own models. Throws IoError and FormatError.
std::string tuned_directory(const TrainingSettings& s);

}  // namespace heed::inline v0
