// What heed train is asked for: its options, presets and configuration files.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/train_defaults.h"
#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"

namespace heed::cli {

struct TrainArguments {
  PairFiles pairs, valid_pairs;
  std::optional<TextPairs> pairs_in_memory, valid_pairs_in_memory;  // instead of files
  std::string columns = "1,2";
  std::vector<std::string> exclude, text, valid_text, labelled, valid_labelled;  // files, as files_of() takes them
  double valid_fraction = 0;  // where nothing is said 0.1 of a text, default_valid_fraction() of pairs
  std::string model, resume, vocabulary, source_vocabulary, init, preset = "small", config;
  bool dump_config = false, trust = false, separate_vocabularies = false, skip_bad_lines = false;
  int threads = 0;
  std::string vocab_type = "subwords";
  double character_coverage = 0.9995;
  std::string prefix, source_language, target_language;  // as TranslateOptions
  int64_t lora = 0;                                      // rank; 0: all parameters are trained
  double lora_alpha = 0;                                 // 0: twice the rank
  std::string lora_layers = "attention";
  std::string tuned;  // tuned_directory()
  std::string html, html_lines, tensorboard, timeline, validate_by = "loss";
  std::string schedule = "inverse-square-root";
  // Each option sets both, where both have it.
  TransformerConfig translator{.max_positions = 512};
  LanguageModelConfig language_model;
  TrainOptions options{.bleu_sentences = 100};
  Communicator* ranks = nullptr;  // that train together; nullptr: nobody else
  double rank_timeout = 600;
  bool open = false;  // what is not given is still to be chosen, by choose_options()
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  bool of_text() const { return !text.empty(); }
  bool of_labels() const { return !labelled.empty(); }
  bool tunes() const { return !tuned.empty(); }
  bool leads() const { return !ranks || ranks->rank() == 0; }  // reads and writes the directory, and speaks
  int64_t vocab_size() const { return translator.vocab_size; }
};

/// Adds the options to `command`; their values land in `a`, which must outlive it.
void add_train_options(CLI::App& command, TrainArguments& a);

/// Fills in what the command line leaves open: --config, then what --resume finds, then the shape of --init, then
/// --preset with its defaults. Without --preset, what was chosen for the training that --model holds; where it holds
/// none, that is left open. Paths in a file are relative to it. Throws UsageError for options of the other kind of
/// training, FormatError for a configuration with others and for a kTrainOptionsFile that heed did not write. Another
/// maker's model (tuned_directory()) has its shape, and what is usual for it instead of a preset.
void apply_config(CLI::App& command, TrainArguments& a);

/// Chooses what is open, see choose_defaults().
std::vector<Choice> choose_options(CLI::App& command, TrainArguments& a, const TrainFacts& facts);
/// What the data decides, whatever was given or chosen.
void set_option(CLI::App& command, const std::string& name, const std::string& value);

/// The columns of source and target of "2,1". Throws UsageError.
std::pair<int, int> parse_columns(const std::string& text);
/// Throws UsageError where --pairs, --source and --target do not go together, or the options with `prefix` in front of
/// their names.
void check_pair_files(const PairFiles& files, const std::string& prefix = "");

/// Throws UsageError for options of the command line, before others are added, that others of it leave without effect.
void check_effects(const CLI::App& command, const TrainArguments& a);

/// Throws UsageError where `option` names a model of the other kind than the data is for: one that translates for a
/// text, or one that writes for pairs.
void expect_kind(const char* option, const std::string& directory, const ModelConfig& config, bool of_text);

/// Throws FormatError where a parameter of the model that a training begins with is NaN or infinite.
void expect_finite(const Module& model);

/// Vocabulary::train() for --vocab-size, which messages about a size that does not fit name.
Vocabulary learn_vocabulary(const std::vector<std::string>& lines, const VocabularyOptions& options);

enum class TomlOf : uint8_t {
  given,          // what was given or chosen, paths as they were typed
  all,            // what has a value; paths are absolute, so that it runs from anywhere
  all_described,  // likewise with comments, and as comments the options that have none
};
/// The options as a file for --config.
std::string options_as_toml(const CLI::App& command, TomlOf what);
/// All of them as kTrainOptionsFile, behind the line that marks it.
std::string options_to_keep(const CLI::App& command);

}  // namespace heed::cli
