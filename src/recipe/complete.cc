// Which options a training has, before its data is read: those of the request, of files, of the model, of a preset.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/config_fields.h"
#include "heed/file_kind.h"
#include "heed/io.h"
#include "heed/paths.h"
#include "recipe/options_file.h"
#include "recipe/presets.h"
#include "recipe/settings.h"

namespace heed::inline v0 {
namespace {

using R = TrainingRequest;
using Fields = std::vector<std::string>;

// Options that mean something for one kind of training only, beside those of one kind of model.
const Fields kPairsOnly = {
    "pairs",           "source",      "target",         "valid_pairs",           "valid_source",
    "valid_target",    "columns",     "exclude",        "batch_tokens",          "max_length",
    "subword_dropout", "validate_by", "bleu_sentences", "separate_vocabularies", "source_vocabulary"};
const Fields kTextOnly = {"valid_text", "vocab_type", "block", "batch", "context_ranks"};

// And for Hugging Face models only, or for heed's own only.
const Fields kTunedOnly = {"labelled",        "valid_labelled", "prefix",     "source_language",
                           "target_language", "lora",           "lora_alpha", "lora_layers"};
const Fields kTunedPairsOnly = {"prefix", "source_language", "target_language"};
const Fields kOwnOnly = {"preset",     "vocabulary",        "separate_vocabularies",
                         "vocab_type", "source_vocabulary", "character_coverage",
                         "html",       "html_lines",        "subword_dropout"};

bool contains(const Fields& fields, const std::string& field) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

bool is_given(const R& request, const std::string& field) { return !option_values(request, field).empty(); }

// The options of the configuration, and the values that give a model these fields.
template <class Config>
R shape_of(const Config& config) {
  R shape;
  for (const auto& [field, value] : field_values(config)) {
    const std::string_view name = field.name;
    if (!field.option || name == "source_vocab_size") continue;
    set_option(shape, field.option, {value});
  }
  return shape;
}

template <class Config>
Fields options_of(const Config& config) {
  Fields fields;
  for (const auto& [field, value] : field_values(config))
    if (field.option) fields.emplace_back(field.option);
  return fields;
}

Fields without(const Fields& mine, const Fields& others) {
  Fields rest;
  std::copy_if(mine.begin(), mine.end(), std::back_inserter(rest),
               [&](const std::string& field) { return !contains(others, field); });
  return rest;
}

void refuse(TrainingSettings& s, const Fields& fields, const std::string& why) {
  for (const std::string& field : fields) {
    if (is_given(s.given, field)) throw UsageError(s.name(field) + why);
    s.unused.insert(field);
  }
}

// The shape of the model of `init`, without its dropout, which is no part of its weights, and its vocabulary.
template <class Config>
R shape_to_begin_with(const Config& config) {
  R shape = shape_of(config);
  shape.vocab_size.reset();
  shape.dropout.reset();
  shape.attention_dropout.reset();
  shape.activation_dropout.reset();
  if constexpr (std::is_same_v<Config, TransformerConfig>) shape.separate_vocabularies = config.source_vocab_size > 0;
  if constexpr (std::is_same_v<Config, LanguageModelConfig>) shape.block = config.max_positions;
  return shape;
}

// Options that write outside the directory of the model.
const Fields kOutputs = {"html", "tensorboard", "timeline"};

// Whether `path` is within `directory`, wherever links lead.
bool is_within(const std::string& path, const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(path), error), outer = fs::canonical(directory, error);
  const fs::path relative = inner.lexically_relative(outer);
  return !error && !relative.empty() && *relative.begin() != "..";
}

// Whether heed wrote what is at `path`: a report, a timeline, or a directory of its event files.
bool is_written_by_heed(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (const std::string name = entry.path().filename().string();
          name.starts_with("events.out.tfevents.") && name.find(".heed") != std::string::npos)
        return true;
    return false;
  }
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string begin(1024, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  return begin.find("<meta name=\"generator\" content=\"heed\">") != std::string::npos ||
         begin.starts_with("{\"traceEvents\":[");
}

// A directory may be untrusted: options that it keeps write nothing outside of it but what heed wrote there before, and
// open no pipe, which may never end. `typed`: options that the request has itself.
void check_kept_paths(const TrainingSettings& s, const Fields& typed) {
  const std::string kept = s.named("resume", s.resume) + ": its " + kTrainOptionsFile;
  using Type = std::filesystem::file_type;
  for (const TrainingOption& option : training_options()) {
    if (!option.path || contains(typed, option.field)) continue;
    std::error_code error;
    for (const std::string& path : option_values(s.given, option.field))
      if (const Type type = std::filesystem::status(path, error).type();
          type == Type::fifo || type == Type::socket || type == Type::character)
        throw UsageError(kept + " names " + path + " for " + s.name(option.field) +
                         ", which is no regular file; give " + s.name(option.field) + " if you want it");
  }
  for (const std::string& field : kOutputs) {
    const std::vector<std::string> paths = option_values(s.given, field);
    if (contains(typed, field) || paths.empty() || paths.front().empty()) continue;
    if (!is_within(paths.front(), s.resume) && !is_written_by_heed(paths.front()))
      throw UsageError(kept + " asks for " + s.named(field, paths.front()) +
                       ", which is outside of the directory and nothing that heed wrote; give " + s.name(field) +
                       " if you want it");
  }
}

// Continues the training in `resume`, with the options that it keeps there.
void take_kept_options(TrainingSettings& s) {
  const std::string& directory = s.resume;
  const std::string given = s.named("resume", directory);
  const std::string none = given + ": there is no training to resume; begin one with " + s.named("model", directory);
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) throw IoError(none);
  if (!std::filesystem::is_directory(directory, error))
    throw IoError(given + " is not a directory; give that of a training");
  const DirectorySnapshot files(directory, {kTrainOptionsFile, kStateFile});
  const bool has_weights = files.contains(kStateFile);
  if (!files.contains(kTrainOptionsFile) && has_weights)
    throw FormatError(given + ": this training kept no options (" + kTrainOptionsFile +
                      "), as those of older versions; give its whole command once more, with " +
                      s.named("model", directory));
  if (!files.contains(kTrainOptionsFile) && std::filesystem::exists(directory + "/" + kConfigFile, error))
    throw UsageError(given + ": it holds a model without its training (" + kStateFile + "); begin a new training " +
                     "with this model by " + s.named("init", directory) + ", the data and another " + s.name("model"));
  if (!files.contains(kTrainOptionsFile)) {
    expect_own(given, directory);
    throw IoError(none);
  }
  Fields typed;
  for (const TrainingOption& option : training_options())
    if (option.path && is_given(s.given, option.field)) typed.emplace_back(option.field);
  s.set("model", directory);
  // The directory has a vocabulary, and weights as soon as it has a state: what it began with may be gone.
  TrainingRequest kept =
      parse_options(read_kept_options(files, directory), directory + "/" + kTrainOptionsFile, s.given);
  kept.vocabulary.reset();
  kept.source_vocabulary.reset();
  if (has_weights) kept.init.reset();
  s.fill_in(kept);
  check_kept_paths(s, typed);
}

// Which part of the pairs a training that has begun holds out: as it keeps it, or nothing in one that began before
// pairs were held out by default. `kept`: the options that it keeps.
void keep_valid_fraction(TrainingSettings& s, const R& kept) {
  if (!s.valid_pairs().empty() || s.given.valid_pairs_in_memory || !s.given.valid_labelled.empty()) return;
  s.fill_in({.valid_fraction = kept.valid_fraction.value_or(0)});
}

// Options of a text that follow from the others.
void fill_in_text_rest(TrainingSettings& s) {
  s.fill_in(text_steps());
  s.fill_in({.max_positions = s.options.block});
  if (s.schedule == "linear") return;  // it comes down to 0
  char tenth[32];
  std::snprintf(tenth, sizeof tenth, "%g", s.options.learning_rate.peak / 10);
  s.fill_in({.min_learning_rate = std::atof(tenth)});
}

// A Hugging Face model has its shape and its tokenizer.
void apply_tuning(TrainingSettings& s) {
  if (s.of_text() + s.of_labels() + s.of_pairs() > 1)
    throw UsageError("give one kind of data: " + s.name("pairs") + ", or " + s.name("source") + " and " +
                     s.name("target") + ", or " + s.name("text") + ", or " + s.name("labelled"));
  const std::string own = " is for models that heed begins; that of " + s.tuned + " stays as it is";
  refuse(s, kOwnOnly, own);
  refuse(s, options_of(s.translator), own);
  refuse(s, options_of(s.language_model), own);
  Fields others;
  const auto add = [&](const Fields& fields) { others.insert(others.end(), fields.begin(), fields.end()); };
  if (s.of_text() || s.of_labels()) add(kPairsOnly), add(kTunedPairsOnly);
  if (!s.of_text()) add(kTextOnly);
  if (!s.of_labels()) add({"valid_labelled"});
  std::erase_if(others, [&](const std::string& field) {
    return contains(kOwnOnly, field) ||
           (s.of_labels() && (field == "batch" || field == "columns" || field == "exclude"));
  });
  refuse(s, others, " is for another kind of data than is given");
  if (!s.given.lora)
    refuse(s, {"lora_alpha", "lora_layers"}, " is of adapters; give " + s.name("lora") + ", their rank");
  else
    s.fill_in({.lora_alpha = static_cast<double>(2 * s.lora), .learning_rate = 2e-4});
  s.fill_in(tuning_defaults());
  if (!s.given.max_updates && !s.given.max_epochs && !s.given.max_minutes) s.fill_in({.max_epochs = 3});
  s.fill_in({.max_updates = 0});
  if (s.of_text()) s.fill_in({.valid_fraction = 0.1, .batch = 8, .block = 0});
  if (s.of_labels()) s.fill_in({.batch = 32});
}

// Options that others of the request leave without effect. Called before options of files are added.
void check_effects(const TrainingSettings& s) {
  const R& given = s.given;
  const bool from_elsewhere = given.config || given.resume || given.pairs_in_memory;
  if (given.vocab_type == "characters")
    for (const char* const field : {"vocab_size", "character_coverage"})
      if (is_given(given, field))
        throw UsageError(s.name(field) + " is of subwords, and " + s.named("vocab_type", "characters") +
                         " takes every character; give either");
  const bool falls = s.schedule == "linear" || s.schedule == "cosine";
  if (given.schedule && !falls && given.min_learning_rate)
    throw UsageError(s.name("min_learning_rate") + " is what " + s.named("schedule", "linear") +
                     " and cosine end at; " + s.named("schedule", s.schedule) + " has no end: leave one out");
  const bool columns = !given.pairs.empty() || !given.valid_pairs.empty() || s.of_labels();
  if (given.columns && !columns && !from_elsewhere && !s.of_text())
    throw UsageError(s.name("columns") + " is of " + s.name("pairs") + ", " + s.name("valid_pairs") + " and " +
                     s.name("labelled") + "; leave it out");
}

// A new training of heed's own models, or one that has begun.
void apply_own(TrainingSettings& s) {
  refuse(s, kTunedOnly, " is for Hugging Face models; name the directory of one by " + s.name("init"));
  const Fields of_translator = options_of(s.translator), of_writer = options_of(s.language_model);
  const auto refuse_kind = [&](const Fields& fields, const Fields& shape, const std::string& why) {
    refuse(s, fields, why);
    refuse(s, shape, why);
  };
  if (s.of_text())
    refuse_kind(kPairsOnly, without(of_translator, of_writer),
                " is for sentence pairs, " + s.name("text") + " for a language model; give one kind of data");
  else
    refuse_kind(kTextOnly, without(of_writer, of_translator),
                " is for language models; give " + s.name("text") + ", the text to learn from");
  if (!s.init.empty()) {
    const ModelConfig config = load_config(s.init);
    expect_kind(s, "init", s.init, config);
    s.fill_in(s.of_text() ? shape_to_begin_with(expect_config<LanguageModelConfig>(config, s.init))
                          : shape_to_begin_with(expect_config<TransformerConfig>(config, s.init)));
  }
  if (s.of_text()) s.fill_in(text_defaults());
  // The clock would choose otherwise the second time, so what was chosen is kept. Before there were choices a training
  // kept nothing, and was of the preset.
  std::optional<DirectorySnapshot> files;
  if (!s.model.empty() && std::filesystem::is_directory(s.model))
    files.emplace(s.model, std::vector<std::string>{kConfigFile, kTrainOptionsFile});
  const bool began = files && files->contains(kConfigFile), old = began && !files->contains(kTrainOptionsFile);
  R kept;
  if (began && !old && !s.only_described) {
    // Read where it is not needed, too: the training will replace it.
    kept = parse_options(read_kept_options(*files, s.model), s.model + "/" + kTrainOptionsFile, s.given);
    expect_kind(s, "model", s.model, load_config(s.model));
  }
  if (began && !s.of_text() && !s.only_described) keep_valid_fraction(s, kept);
  const bool of_preset = s.given.preset || s.only_described || old;
  s.open = !of_preset && !began;
  if (s.open) return;
  if (of_preset) {
    // The rate is to come down as the minutes end, unless its way is given.
    const R& given = s.given;
    if (!old && given.max_minutes && !given.max_updates && !given.schedule && !given.anneal)
      s.fill_in({.max_updates = 0, .schedule = "linear"});
    s.fill_in(s.of_text() ? text_preset(s.preset) : pairs_preset(s.preset));
  } else {
    R chosen;
    for (const TrainingOption& option : training_options())
      if (is_chosen(option.field))
        if (const auto values = option_values(kept, option.field); !values.empty())
          set_option(chosen, option.field, values);
    s.fill_in(chosen);
  }
  if (s.of_text()) fill_in_text_rest(s);
}

}  // namespace

std::vector<Choice> choose_options(TrainingSettings& s, const TrainFacts& facts) {
  std::vector<Choice> choices = choose_defaults(facts, s.given);
  for (const Choice& choice : choices) s.fill_in(choice.options);
  if (s.of_text()) fill_in_text_rest(s);
  return choices;
}

TrainingSettings completed(const TrainingRequest& request, bool only_described) {
  TrainingSettings s{.given = request, .only_described = only_described};
  s.resolve();
  s.resume = request.resume.value_or("");
  check_effects(s);
  if (request.config) {
    expect_regular_file(*request.config, kLargestOptions);
    s.fill_in(parse_options(read_file(*request.config, kLargestOptions), *request.config, s.given));
  }
  if (!s.resume.empty()) {
    if (s.given.model)
      throw UsageError("give " + s.name("resume") + ", to continue in this directory, or " + s.name("model"));
    if (s.given.preset)
      throw UsageError(s.name("preset") + " chooses the shape of a new model; " + s.name("resume") +
                       " continues with one");
    take_kept_options(s);
  }
  s.tuned = tuned_directory(s);
  if (!s.tunes()) {
    apply_own(s);
    return s;
  }
  apply_tuning(s);
  if (s.of_text() || only_described || s.tuned != s.model) return s;
  const DirectorySnapshot files(s.model, {kTrainOptionsFile});
  R kept;
  if (files.contains(kTrainOptionsFile))
    kept = parse_options(read_kept_options(files, s.model), s.model + "/" + kTrainOptionsFile, s.given);
  keep_valid_fraction(s, kept);
  return s;
}

}  // namespace heed::inline v0
