#include "cli/train_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/help.h"
#include "cli/model_flags.h"
#include "cli/tuning.h"
#include "heed/config_fields.h"
#include "heed/file_kind.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/model_files.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

// Named sets of shape options; what is given by name wins.
struct Preset {
  const char* name;
  std::vector<std::pair<std::string, std::string>> values;
};
bool has(const Preset& preset, const std::string& option) {
  return std::any_of(preset.values.begin(), preset.values.end(), [&](const auto& v) { return v.first == option; });
}

const std::vector<Preset>& pairs_presets() {
  static const std::vector<Preset> all{
      {"tiny",
       {{"--d-model", "64"},
        {"--heads", "2"},
        {"--feed-forward", "128"},
        {"--encoder-layers", "1"},
        {"--decoder-layers", "1"},
        {"--vocab-size", "1000"},
        {"--pre-norm", "true"}}},
      {"small",
       {{"--d-model", "256"},
        {"--heads", "4"},
        {"--feed-forward", "512"},
        {"--encoder-layers", "3"},
        {"--decoder-layers", "2"},
        {"--vocab-size", "2400"},
        {"--pre-norm", "true"}}},
      {"base",  // Vaswani et al. 2017, table 3
       {{"--d-model", "512"},
        {"--heads", "8"},
        {"--feed-forward", "2048"},
        {"--encoder-layers", "6"},
        {"--decoder-layers", "6"},
        {"--vocab-size", "16000"},
        {"--pre-norm", "false"}}},
  };
  return all;
}

const std::vector<Preset>& text_presets() {
  static const std::vector<Preset> all{
      {"tiny",
       {{"--d-model", "64"},
        {"--heads", "2"},
        {"--feed-forward", "256"},
        {"--layers", "2"},
        {"--vocab-size", "512"},
        {"--block", "64"},
        {"--batch", "12"},
        {"--max-updates", "1000"}}},
      {"small",
       {{"--d-model", "256"},
        {"--heads", "4"},
        {"--feed-forward", "1024"},
        {"--layers", "4"},
        {"--vocab-size", "2000"},
        {"--block", "128"},
        {"--batch", "32"},
        {"--max-updates", "5000"}}},
      {"base",  // Radford et al. 2019, table 2, first row
       {{"--d-model", "768"},
        {"--heads", "12"},
        {"--feed-forward", "3072"},
        {"--layers", "12"},
        {"--vocab-size", "16000"},
        {"--block", "1024"},
        {"--batch", "8"},
        {"--max-updates", "100000"}}},
  };
  return all;
}
// What is usual for the training of language models, whatever the preset.
const Preset kTextDefaults{"",
                           {{"--vocab-type", "subwords"},
                            {"--valid-fraction", "0.1"},
                            {"--beta2", "0.99"},
                            {"--epsilon", "1e-8"},
                            {"--weight-decay", "0.1"},
                            {"--label-smoothing", "0"}}};
// And, where they are neither given nor chosen:
const Preset kTextSteps{
    "", {{"--schedule", "cosine"}, {"--learning-rate", "0.001"}, {"--warmup", "100"}, {"--average", "1"}}};

// What choose_defaults() may choose, and what follows from it.
constexpr const char* kChosen[] = {"--vocab-size",      "--d-model",           "--heads",
                                   "--feed-forward",    "--encoder-layers",    "--decoder-layers",
                                   "--layers",          "--pre-norm",          "--dropout",
                                   "--subword-dropout", "--batch-tokens",      "--block",
                                   "--batch",           "--learning-rate",     "--warmup",
                                   "--schedule",        "--max-updates",       "--max-epochs",
                                   "--patience",        "--average",           "--validate-every",
                                   "--max-positions",   "--min-learning-rate", "--validate-by",
                                   "--bleu-sentences"};

// Options that mean something for one kind of training only, beside those of one kind of model.
constexpr const char* kPairsOnly[] = {
    "--pairs",           "--source",      "--target",         "--valid-pairs",           "--valid-source",
    "--valid-target",    "--columns",     "--exclude",        "--batch-tokens",          "--max-length",
    "--subword-dropout", "--validate-by", "--bleu-sentences", "--separate-vocabularies", "--source-vocabulary"};
constexpr const char* kTextOnly[] = {"--valid-text", "--vocab-type", "--block", "--batch", "--context-ranks"};

// And for models of other makers only, or for heed's own only.
constexpr const char* kTunedOnly[] = {"--labelled", "--valid-labelled", "--prefix",     "--from",
                                      "--to",       "--lora",           "--lora-alpha", "--lora-layers"};
constexpr const char* kTunedPairsOnly[] = {"--prefix", "--from", "--to"};
constexpr const char* kOwnOnly[] = {"--preset",     "--vocabulary",        "--separate-vocabularies",
                                    "--vocab-type", "--source-vocabulary", "--character-coverage",
                                    "--html",       "--html-lines",        "--subword-dropout"};
// What is usual for them.
const Preset kTuningDefaults{"",
                             {{"--learning-rate", "5e-5"},
                              {"--schedule", "linear"},
                              {"--warmup", "0"},
                              {"--average", "1"},
                              {"--beta2", "0.999"},
                              {"--epsilon", "1e-8"},
                              {"--label-smoothing", "0"}}};

constexpr uint64_t kMostConfigBytes = 1 << 20;

// Options whose values are files or directories.
constexpr const char* kPaths[] = {"--pairs",
                                  "--source",
                                  "--target",
                                  "--valid-pairs",
                                  "--valid-source",
                                  "--valid-target",
                                  "--labelled",
                                  "--valid-labelled",
                                  "--text",
                                  "--valid-text",
                                  "--exclude",
                                  "--vocabulary",
                                  "--source-vocabulary",
                                  "--model",
                                  "--init",
                                  "--html",
                                  "--tensorboard",
                                  "--timeline"};

bool is_path(const std::string& name) {
  return std::find(std::begin(kPaths), std::end(kPaths), name) != std::end(kPaths);
}

// As it is called from the directory `base`; "-" is standard input everywhere.
std::string based_on(const std::filesystem::path& base, const std::string& path) {
  return path == "-" || path.empty() ? path : (base / path).lexically_normal().string();
}

bool takes_several(const CLI::Option& option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

void give(CLI::Option* option, const std::vector<std::string>& values) {
  for (const std::string& value : values) option->add_result(value);
  option->run_callback();
}

// "; did you mean 'warmup'?", or where the options are listed.
std::string nearest_option(const std::string& typed, const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* o) { return o->get_configurable(); }))
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  std::string hint = called_elsewhere("--" + typed, known);
  if (hint.empty()) hint = did_you_mean("--" + typed, known);
  for (size_t at; (at = hint.find("--")) != std::string::npos;) hint.erase(at, 2);  // names stand alone in a file
  return hint.empty() ? "; heed train --help-all lists them" : hint;
}

// What the file `path` says, whose content is `toml`, of the options that `wanted` takes, and nobody has said yet.
template <class Wanted>
void give_those_of(std::string_view toml, const std::string& path, CLI::App& command, Wanted&& wanted) {
  const std::filesystem::path base = std::filesystem::path(path).parent_path();
  for (ConfigEntry& entry : parse_config(toml, path)) {
    if (!wanted("--" + entry.name)) continue;
    const std::string where = path + ": line " + std::to_string(entry.line) + ": ";
    CLI::Option* option = command.get_option_no_throw("--" + entry.name);
    if (!option || !option->get_configurable())
      throw FormatError(where + "there is no option '" + entry.name + "'" + nearest_option(entry.name, command));
    if (!option->empty()) continue;
    if (entry.values.size() > 1 && !takes_several(*option))
      throw FormatError(where + entry.name + " has " + std::to_string(entry.values.size()) + " values; it takes one");
    if (is_path("--" + entry.name))
      for (std::string& value : entry.values) value = based_on(base, value);
    try {
      give(option, entry.values);
    } catch (const CLI::ParseError& e) {
      throw FormatError(where + parse_error_in_words(e, command));
    }
  }
}

// The first line of kTrainOptionsFile.
constexpr std::string_view kKeptByHeed = "# The options of this training, kept by heed train for --resume.";
// Before there was that line, every such file had these options. Nobody else names all of them.
constexpr std::string_view kAlwaysKept[] = {"threads",      "seed",       "character-coverage",
                                            "model",        "bias",       "attention-dropout",
                                            "accumulate",   "anneal",     "beta1",
                                            "beta2",        "epsilon",    "weight-decay",
                                            "clip-norm",    "r-drop",     "average",
                                            "max-updates",  "max-epochs", "max-minutes",
                                            "save-minutes", "save-every", "log-every"};

bool kept_by_heed(std::string_view toml) {
  if (toml.starts_with(kKeptByHeed)) return true;
  std::set<std::string_view> missing(std::begin(kAlwaysKept), std::end(kAlwaysKept));
  while (!toml.empty()) {
    const std::string_view line = toml.substr(0, toml.find('\n'));
    const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-");
    if (end == 0 || end == line.npos || !line.substr(end).starts_with(" = ")) return false;  // heed wrote options alone
    missing.erase(line.substr(0, end));
    toml.remove_prefix(std::min(line.size() + 1, toml.size()));
  }
  return missing.empty();
}

// What a training keeps in `directory`, which has such a file.
std::string read_kept_options(const DirectorySnapshot& files, const std::string& directory) {
  std::string toml = files.read(kTrainOptionsFile, kMostConfigBytes);
  if (!kept_by_heed(toml))
    throw FormatError(directory + "/" + kTrainOptionsFile + ": not the options of a training, whose first line is '" +
                      std::string(kKeptByHeed) + "'; move it away, or choose another directory");
  return toml;
}

// What a training writes beside the directory of its model.
constexpr const char* kOutputs[] = {"--html", "--tensorboard", "--timeline"};

// Whether `path` is within `directory`, wherever links lead.
bool is_within(const std::string& path, const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(path), error), outer = fs::canonical(directory, error);
  const fs::path relative = inner.lexically_relative(outer);
  return !error && !relative.empty() && *relative.begin() != "..";
}

// Whether a report or a timeline that heed wrote is at `path`, or a directory of its event files.
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
// open no pipe, which may never end.
void check_kept_paths(const std::string& directory, const CLI::App& command, const std::set<std::string>& typed) {
  for (const char* name : kPaths) {
    const CLI::Option* const option = command.get_option(name);
    if (typed.contains(name) || option->empty()) continue;
    std::error_code error;
    for (const std::string& path : option->results())
      if (const auto type = std::filesystem::status(path, error).type(); type == std::filesystem::file_type::fifo ||
                                                                         type == std::filesystem::file_type::socket ||
                                                                         type == std::filesystem::file_type::character)
        throw UsageError("--resume " + directory + ": its " + kTrainOptionsFile + " names " + path + " for " + name +
                         ", which is no regular file; give " + name + " if you want it");
  }
  for (const char* name : kOutputs) {
    const CLI::Option* const option = command.get_option(name);
    if (typed.contains(name) || option->empty() || option->as<std::string>().empty()) continue;
    const std::string path = option->as<std::string>();
    if (!is_within(path, directory) && !is_written_by_heed(path))
      throw UsageError("--resume " + directory + ": its " + kTrainOptionsFile + " asks for " + name + " " + path +
                       ", which is outside of the directory and nothing that heed wrote; give " + name +
                       " if you want it");
  }
}

// Goes on with the training in `directory`, with the options that it keeps there.
void give_kept_options(const std::string& directory, CLI::App& command) {
  const std::string given = "--resume " + directory;
  const std::string none = given + ": there is no training to resume; begin one with --model " + directory;
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) throw IoError(none);
  if (!std::filesystem::is_directory(directory, error))
    throw IoError(given + " is not a directory; give that of a training");
  const DirectorySnapshot files(directory, {kTrainOptionsFile, kStateFile});
  const bool has_weights = files.contains(kStateFile);
  if (!files.contains(kTrainOptionsFile) && has_weights)
    throw FormatError(given + ": this training kept no options (" + kTrainOptionsFile +
                      "), as those of older versions; give its whole command once more, with --model " + directory);
  if (!files.contains(kTrainOptionsFile) && std::filesystem::exists(directory + "/" + kConfigFile, error))
    throw UsageError(given + ": it holds a model without its training (" + kStateFile + "); begin a new training " +
                     "with this model by --init " + directory + ", the data and another --model");
  if (!files.contains(kTrainOptionsFile)) {
    expect_own("--resume " + directory, directory);
    throw IoError(none);
  }
  std::set<std::string> typed;
  for (const char* name : kPaths)
    if (!command.get_option(name)->empty()) typed.insert(name);
  give(command.get_option("--model"), {directory});
  // The directory has a vocabulary, and weights as soon as it has a state: what it began with may be gone.
  give_those_of(read_kept_options(files, directory), directory + "/" + kTrainOptionsFile, command,
                [&](const std::string& name) {
                  return name != "--vocabulary" && name != "--source-vocabulary" && !(has_weights && name == "--init");
                });
  check_kept_paths(directory, command, typed);
}

// The shape options of a model, but not its dropout, which is no part of its weights, and not its vocabulary, which
// comes along.
template <class Config>
Preset shape_of(const Config& c) {
  Preset shape{"", {}};
  for (const auto& [flag, value] : flags_of(c))
    if (!flag.ends_with("dropout") && flag != "--vocab-size") shape.values.emplace_back(flag, value);
  if constexpr (std::is_same_v<Config, LanguageModelConfig>)
    shape.values.emplace_back("--block", std::to_string(c.max_positions));
  return shape;
}

// The options of a model that the other kind has not.
std::vector<std::string> only_of(const Flags& mine, const Flags& others) {
  std::set<std::string> theirs;
  for (const auto& [name, value] : others) theirs.insert(name);
  std::vector<std::string> names;
  for (const auto& [name, value] : mine)
    if (!theirs.contains(name)) names.push_back(name);
  return names;
}

// kTextDefaults, and what is usual for a language model but not for a translator. Sizes are the preset's or chosen.
Preset text_defaults(const CLI::App& command) {
  Preset all = kTextDefaults;
  for (const auto& [name, value] : flags_of(LanguageModelConfig()))
    if (name != "--max-positions" && !has(text_presets().front(), name) &&
        command.get_option(name)->get_default_str() != hyphened(value))
      all.values.emplace_back(name, hyphened(value));
  return all;
}

void fill_in(CLI::App& command, const Preset& preset) {
  for (const auto& [name, value] : preset.values)
    if (CLI::Option* option = command.get_option(name); option->empty()) give(option, {value});
}

// Which part of the pairs a training that has begun holds out: as it keeps it, or nothing in one of before pairs were
// held out where nothing was said. `toml` is what it keeps, of the file `path`.
void keep_valid_fraction(CLI::App& command, const TrainArguments& a, std::string_view toml, const std::string& path) {
  constexpr const char* kValidFraction = "--valid-fraction";
  if (!a.valid_pairs.empty() || a.valid_pairs_in_memory || !a.valid_labelled.empty()) return;
  give_those_of(toml, path, command, [&](const std::string& name) { return name == kValidFraction; });
  fill_in(command, {"", {{kValidFraction, "0"}}});
}

// What follows from the rest, of a text.
void fill_in_text_rest(CLI::App& command, const TrainArguments& arguments) {
  fill_in(command, kTextSteps);
  fill_in(command, {"", {{"--max-positions", std::to_string(arguments.options.block)}}});
  if (arguments.schedule == "linear") return;  // it comes down to 0
  char tenth[32];
  std::snprintf(tenth, sizeof tenth, "%g", arguments.options.learning_rate.peak / 10);
  fill_in(command, {"", {{"--min-learning-rate", tenth}}});
}

template <class Names>
void refuse(CLI::App& command, const Names& names, const std::string& why) {
  for (const std::string_view name : names) {
    CLI::Option* option = command.get_option(std::string(name));
    if (!option->empty()) throw UsageError(std::string(name) + why);
    option->configurable(false);  // not for --dump-config
  }
}

// Of another maker's model: it has its shape and its tokenizer.
void apply_tuning(CLI::App& command, const TrainArguments& a) {
  if (a.of_text() + a.of_labels() + (!a.pairs.empty() || a.pairs_in_memory) > 1)
    throw UsageError("give one kind of data: --pairs, or --source and --target, or --text, or --labelled");
  const std::string own = " is for models that heed begins; that of " + a.tuned + " stays as it is";
  refuse(command, kOwnOnly, own);
  for (const Flags& flags : {flags_of(a.translator), flags_of(a.language_model)})
    for (const auto& [name, value] : flags) refuse(command, std::array{name}, own);
  std::vector<std::string> others;
  const auto add = [&](const auto& names) { others.insert(others.end(), std::begin(names), std::end(names)); };
  if (a.of_text() || a.of_labels()) add(kPairsOnly), add(kTunedPairsOnly);
  if (!a.of_text()) add(kTextOnly);
  if (!a.of_labels()) add(std::array{"--valid-labelled"});
  std::erase_if(others, [&](const std::string& name) {
    return std::find(std::begin(kOwnOnly), std::end(kOwnOnly), name) != std::end(kOwnOnly) ||
           (a.of_labels() && (name == "--batch" || name == "--columns" || name == "--exclude"));
  });
  refuse(command, others, " is for another kind of data than is given");
  const auto given = [&](const char* name) { return !command.get_option(name)->empty(); };
  if (!given("--lora"))
    refuse(command, std::array{"--lora-alpha", "--lora-layers"}, " is of adapters; give --lora, their rank");
  else
    fill_in(command, {"", {{"--learning-rate", "2e-4"}, {"--lora-alpha", std::to_string(2 * a.lora)}}});
  fill_in(command, kTuningDefaults);
  if (!given("--max-updates") && !given("--max-epochs") && !given("--max-minutes"))
    fill_in(command, {"", {{"--max-epochs", "3"}}});
  fill_in(command, {"", {{"--max-updates", "0"}}});
  if (a.of_text()) fill_in(command, {"", {{"--valid-fraction", "0.1"}, {"--batch", "8"}, {"--block", "0"}}});
  if (a.of_labels()) fill_in(command, {"", {{"--batch", "32"}}});
}

}  // namespace

std::vector<Choice> choose_options(CLI::App& command, TrainArguments& arguments, const TrainFacts& facts) {
  GivenOptions given;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* o) { return !o->empty(); }))
    given[option->get_name()] = option->results().back();
  std::vector<Choice> choices = choose_defaults(facts, given);
  for (const Choice& choice : choices) fill_in(command, {"", choice.options});
  if (arguments.of_text()) fill_in_text_rest(command, arguments);
  return choices;
}

void set_option(CLI::App& command, const std::string& name, const std::string& value) {
  CLI::Option* option = command.get_option(name);
  option->clear();
  give(option, {value});
}

std::pair<int, int> parse_columns(const std::string& text) {
  int source = 0, target = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, source);
  const bool two = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = two ? std::from_chars(first.ptr + 1, end, target) : first;
  if (!two || second.ec != std::errc() || second.ptr != end || source < 1 || target < 1)
    throw UsageError("--columns " + text + ": give the columns of source and target, counted from 1, as in 2,1");
  if (source == target)
    throw UsageError("--columns " + text + ": source and target are one column; give two, counted from 1, as in 2,1");
  return {source, target};
}

void check_pair_files(const PairFiles& files, const std::string& prefix) {
  const std::string dashes = "--" + prefix;
  if (!files.pairs.empty() && (!files.source.empty() || !files.target.empty()))
    throw UsageError("give either " + dashes + "pairs, or " + dashes + "source and " + dashes + "target");
  if (files.source.empty() != files.target.empty())
    throw UsageError("give both " + dashes + "source and " + dashes + "target");
  const size_t sources = files_of(files.source).size(), targets = files_of(files.target).size();
  if (sources != targets)
    throw UsageError(dashes + "source names " + std::to_string(sources) + " files and " + dashes + "target " +
                     std::to_string(targets) + "; each file of sources needs its file of targets");
}

void apply_config(CLI::App& command, TrainArguments& arguments) {
  check_effects(command, arguments);
  if (!arguments.config.empty()) {
    expect_regular_file(arguments.config, kMostConfigBytes);
    give_those_of(read_file(arguments.config, kMostConfigBytes), arguments.config, command,
                  [](const std::string&) { return true; });
  }
  if (!arguments.resume.empty()) {
    if (!command.get_option("--model")->empty())
      throw UsageError("give --resume, to go on in this directory, or --model");
    if (!command.get_option("--preset")->empty())
      throw UsageError("--preset chooses the shape of a new model; --resume goes on with one");
    give_kept_options(arguments.resume, command);
  }
  arguments.tuned = tuned_directory(arguments);
  if (arguments.tunes()) {
    apply_tuning(command, arguments);
    if (arguments.of_text() || arguments.dump_config || arguments.tuned != arguments.model) return;
    const DirectorySnapshot files(arguments.model, {kTrainOptionsFile});
    const bool kept = files.contains(kTrainOptionsFile);
    keep_valid_fraction(command, arguments, kept ? read_kept_options(files, arguments.model) : "",
                        arguments.model + "/" + kTrainOptionsFile);
    return;
  }
  refuse(command, kTunedOnly, " is for models of other makers; name the directory of one by --init");
  const Flags of_translator = flags_of(arguments.translator), of_writer = flags_of(arguments.language_model);
  if (arguments.of_text()) {
    const char* const why = " is for sentence pairs, --text for a language model; give one kind of data";
    refuse(command, kPairsOnly, why);
    refuse(command, only_of(of_translator, of_writer), why);
  } else {
    const char* const why = " is for language models; give --text, the text to learn from";
    refuse(command, kTextOnly, why);
    refuse(command, only_of(of_writer, of_translator), why);
  }
  if (!arguments.init.empty()) {
    const ModelConfig config = load_config(arguments.init);
    expect_kind("--init", arguments.init, config, arguments.of_text());
    fill_in(command, arguments.of_text() ? shape_of(expect_config<LanguageModelConfig>(config, arguments.init))
                                         : shape_of(expect_config<TransformerConfig>(config, arguments.init)));
  }
  if (arguments.of_text()) fill_in(command, text_defaults(command));
  // The clock would choose otherwise the second time, so what was chosen is kept. Before there were choices a training
  // kept nothing, and was of the preset.
  std::optional<DirectorySnapshot> files;
  if (!arguments.model.empty() && std::filesystem::is_directory(arguments.model))
    files.emplace(arguments.model, std::vector<std::string>{kConfigFile, kTrainOptionsFile});
  const bool began = files && files->contains(kConfigFile), old = began && !files->contains(kTrainOptionsFile);
  const bool kept = began && !old && !arguments.dump_config;
  // Read where it is not needed, too: the training will replace it.
  const std::string kept_options = kept ? read_kept_options(*files, arguments.model) : "";
  if (kept) expect_kind("--model", arguments.model, load_config(arguments.model), arguments.of_text());
  if (began && !arguments.of_text() && !arguments.dump_config)
    keep_valid_fraction(command, arguments, kept_options, arguments.model + "/" + kTrainOptionsFile);
  const bool of_preset = !command.get_option("--preset")->empty() || arguments.dump_config || old;
  arguments.open = !of_preset && !began;
  if (arguments.open) return;
  if (of_preset) {
    // The rate is to come down as the minutes end, unless its way is given.
    const auto given = [&](const char* name) { return !command.get_option(name)->empty(); };
    if (!old && given("--max-minutes") && !given("--max-updates") && !given("--schedule") && !given("--anneal"))
      fill_in(command, {"", {{"--schedule", "linear"}, {"--max-updates", "0"}}});
    for (const Preset& preset : arguments.of_text() ? text_presets() : pairs_presets())
      if (arguments.preset == preset.name) fill_in(command, preset);
  } else {
    give_those_of(kept_options, arguments.model + "/" + kTrainOptionsFile, command, [](const std::string& name) {
      return std::find(std::begin(kChosen), std::end(kChosen), name) != std::end(kChosen);
    });
  }
  if (arguments.of_text()) fill_in_text_rest(command, arguments);
}

namespace {

// What stands for the value of an option that has none: what is permitted where it can be taken as it is, else the name
// of the value, which is no TOML.
std::string placeholder_in_toml(const CLI::Option& option) {
  const OptionHelp help = describe(option);
  if (help.value.empty()) return "false";
  if (takes_several(option)) return "[]";
  if (!help.choices.empty()) return "\"" + help.choices.front() + "\"";
  const bool text = help.value != "N" && help.value != "X" && help.value != "RANK";
  return text ? "\"\"" : help.value;
}

}  // namespace

std::string options_as_toml(const CLI::App& command, TomlOf what) {
  const bool described = what == TomlOf::all_described;
  std::string toml;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
    const std::string& name = option->get_lnames().front();
    const bool several = takes_several(*option), path = is_path("--" + name);
    std::vector<std::string> values = option->results();
    if (values.empty() && what != TomlOf::given) values = {option->get_default_str()};
    if (!several && values.size() > 1) values = {values.back()};  // the last one counts
    std::erase(values, "");
    if (values.empty() && !described) continue;
    if (path && what != TomlOf::given)
      for (std::string& value : values) value = based_on(std::filesystem::current_path(), value);
    if (described) toml += "# " + option->get_description() + "\n";
    toml += values.empty() ? "# " + name + " = " + placeholder_in_toml(*option) + "\n"
                           : toml_line(name, values, several, path) + "\n";
    if (described) toml += "\n";
  }
  return toml;
}

std::string options_to_keep(const CLI::App& command) {
  return std::string(kKeptByHeed) + "\n" + options_as_toml(command, TomlOf::all);
}

namespace {

// What help shows in brackets where a captured default would mislead.
void show_defaults(CLI::App& command) {
  const auto show = [](CLI::Option& option, const std::string& standard) {
    if (!option.get_description().ends_with(']')) option.description(option.get_description() + " [" + standard + "]");
  };
  CLI::Option& longest = *command.get_option("--max-positions");
  show(longest, longest.get_default_str() + "; --block for --text");
  for (const char* name : kChosen) show(*command.get_option(name), "chosen");
  for (const auto& [name, value] : text_defaults(command).values) {
    CLI::Option& option = *command.get_option(name);
    const std::string& of_pairs = option.get_default_str();
    if (of_pairs.empty())
      show(option, value);
    else if (of_pairs != value)
      show(option, of_pairs + "; " + value + " for --text");
  }
}

void add_data_options(CLI::App& command, TrainArguments& a) {
  const auto file = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->type_name("FILE")->group("Data");
  };
  // Each may be a pattern, be compressed, or stand for standard input.
  const auto files = [&](const char* name, std::vector<std::string>& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("FILE ...")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->default_str("")
        ->group("Data");
  };
  files("--pairs", a.pairs.pairs,
        "Sentence pairs, one a line, tab-separated columns. As all data: several files, also as a pattern in quotes, "
        "compressed by gzip, or - for standard input");
  command.add_option("--columns", a.columns, "Columns of source and target in --pairs and --valid-pairs, from 1")
      ->type_name("S,T")
      ->group("Data");
  files("--source", a.pairs.source, "Source sentences, one a line (instead of --pairs)");
  files("--target", a.pairs.target, "Target sentences, one a line");
  files("--valid-pairs", a.valid_pairs.pairs, "Sentence pairs to validate on");
  files("--valid-source", a.valid_pairs.source, "Source sentences to validate on (instead of --valid-pairs)");
  files("--valid-target", a.valid_pairs.target, "Target sentences to validate on");
  files("--text", a.text, "Text for a language model (instead of sentence pairs)");
  files("--valid-text", a.valid_text, "Text to validate on");
  files("--labelled", a.labelled,
        "Lines of a label, a tab and a text, or a picture's file, for another maker's encoder: its classes (instead of "
        "sentence pairs)");
  files("--valid-labelled", a.valid_labelled, "Such lines to validate on");
  const auto word = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("Data");
  };
  word("--prefix", a.prefix, "TEXT", "In front of each source, for another maker's model: 'summarize: ' for T5");
  word("--from", a.source_language, "CODE", "Of another maker's model of many languages: that of the sources");
  word("--to", a.target_language, "CODE", "And that of the targets");
  command
      .add_option("--valid-fraction", a.valid_fraction,
                  "Without data to validate on: this part of the pairs, chosen by their sources, or of the end of "
                  "--text [2 % of pairs, 100 to 2,000 of them; 0.1 for --text]")
      ->check(finite_number())
      ->check(in_range(0, 0.9))
      ->default_str("")
      ->group("Data");
  command
      .add_option("--vocab-type", a.vocab_type,
                  "Pieces of --text: subwords, or characters (each one of the text, and no other)")
      ->transform(one_of({"subwords", "characters"}))
      ->group("Data");
  command
      .add_flag("--skip-bad-lines", a.skip_bad_lines,
                "Leave out lines that are empty, lack a column or are not UTF-8, and count them")
      ->group("Data");
  files("--exclude", a.exclude, "Leave out training pairs whose source is a line of these files");
  file("--vocabulary", a.vocabulary, "Use this vocabulary instead of learning one");
  command
      .add_flag("--separate-vocabularies", a.separate_vocabularies,
                "A vocabulary and an embedding of its own for the source; --vocabulary is the target's")
      ->group("Data");
  file("--source-vocabulary", a.source_vocabulary, "With --separate-vocabularies: use this one for the source");
  command.add_flag("--trust", a.trust, "Load a vocabulary that heed did not make")->group("Data");
  command
      .add_option("--character-coverage", a.character_coverage,
                  "Share of the text's characters with a piece of their own; the rest become bytes")
      ->check(finite_number())
      ->check(in_range(VocabularyOptions::kLeastCoverage, 1))
      ->group("Data");
}

void add_shape_options(CLI::App& command, TrainArguments& a) {
  command.add_option("-m,--model", a.model, "Directory of the model")->type_name("DIR")->group("Model");
  command
      .add_option("--init", a.init,
                  "Begin with the shape, the weights and the vocabulary of this model, heed's or another maker's")
      ->type_name("DIR")
      ->group("Model");
  command
      .add_option("--preset", a.preset,
                  "Shape: tiny, small or base, and fixed values for the rest; options below change parts of it. "
                  "Without it, what is not given is chosen by the data and --max-minutes")
      ->default_str("")
      ->transform(one_of({"tiny", "small", "base"}))
      ->group("Model");
  command
      .add_option("--lora", a.lora,
                  "Of another maker's model: train low-rank adapters of this rank, and leave its weights as they are")
      ->type_name("RANK")
      ->default_str("")
      ->check(CLI::Range(1, 65536))
      ->group("Model");
  command.add_option("--lora-alpha", a.lora_alpha, "The adapters' products count alpha / RANK times [twice the rank]")
      ->check(finite_number())
      ->check(in_range(1e-6, 1e6))
      ->default_str("")
      ->group("Model");
  command
      .add_option("--lora-layers", a.lora_layers,
                  "What has adapters: attention, which is its queries and values, if nothing is said; or all layers")
      ->transform(one_of({"attention", "all"}))
      ->default_str("")
      ->group("Model");
  add_model_options(command, a.translator, a.language_model);
  // The preset fills these in, so a default would mislead.
  for (const Preset& preset : {pairs_presets().front(), text_presets().front()})
    for (const auto& [name, value] : preset.values)
      if (CLI::Option* const sized = command.get_option_no_throw(name); sized && sized->get_group() == "Model")
        sized->default_str("");
}

void add_steps(CLI::App& command, TrainArguments& a) {
  TrainOptions& o = a.options;
  const auto training = [&](const char* name, auto& value, const char* help) {
    CLI::Option* const added = command.add_option(name, value, help)->group("Training");
    if constexpr (std::is_floating_point_v<std::remove_reference_t<decltype(value)>>) added->check(finite_number());
    return added;
  };
  training("--batch-tokens", o.batch_tokens, "Tokens a batch, on its longer side");
  training("--max-length", o.max_length, "Leave out pairs with more tokens on a side");
  training("--subword-dropout", o.subword_dropout, "Merges left out of the pieces of an epoch (BPE-dropout)");
  training("--batch", o.batch, "Pieces of --text a batch")->default_str("");
  training("--block", o.block, "Tokens of each piece of --text")->default_str("");
  training("--accumulate", o.accumulate, "Batches an update, for larger ones than fit into memory");
  training("--schedule", a.schedule,
           "Learning rate after a warm-up: linear falls to 0 as --max-minutes, --max-updates or --max-epochs ends; or "
           "inverse-square-root, cosine, constant")
      ->transform(one_of({"inverse-square-root", "cosine", "constant", "linear"}));
  training("--learning-rate", o.learning_rate.peak, "Peak of the learning rate");
  training("--min-learning-rate", o.learning_rate.floor,
           "What --schedule cosine and linear end at [0; of a text a tenth of the peak, with cosine]");
  training("--warmup", o.learning_rate.warmup, "Updates until the peak");
  training("--anneal", o.learning_rate.anneal, "Last updates of --max-updates, over which the rate also falls to 0");
  training("--beta1", o.adamw.beta1, "AdamW: decay of the mean gradient");
  training("--beta2", o.adamw.beta2, "AdamW: decay of the mean squared gradient");
  training("--epsilon", o.adamw.epsilon, "AdamW: added to the root of the mean square");
  training("--weight-decay", o.adamw.weight_decay, "AdamW: decay of matrices");
  training("--clip-norm", o.clip_norm, "Largest norm of all gradients; 0 for none");
  training("--label-smoothing", o.label_smoothing, "Probability spread over all pieces");
  training("--r-drop", o.r_drop, "Alpha of R-Drop: each batch goes through twice, and the two are to agree");
  training("--validate-every", o.validate_every, "Updates between validations; 0 for each epoch");
  training("--validate-by", a.validate_by, "What chooses the best weights and ends --patience: loss or bleu")
      ->transform(one_of({"loss", "bleu"}));
  training("--bleu-sentences", o.bleu_sentences,
           "Validation pairs to translate greedily at each validation for BLEU; 0 for none")
      ->check(CLI::Range(0, 1000000));
  training("--average", o.average, "Checkpoints (one a validation) to average");
  training("--max-updates", o.max_updates, "Stop after so many updates; 0 for no limit");
  training("--max-epochs", o.max_epochs, "Stop after so many epochs; 0 for no limit");
  training("--max-minutes", o.max_minutes,
           "Stop after so many minutes, preparation and validations included; 0 for no limit");
  training("--patience", o.patience, "Stop after so many validations without better weights; 0 for no limit");
  training("--save-minutes", o.save_minutes, "Minutes between saves; 0 for none but at validations");
  training("--save-every", o.save_every, "Updates between saves; 0 for none by count");
  training("--log-every", o.log_every, "Updates between progress lines");
  training("--context-ranks", o.context_ranks,
           "Under mpirun: ranks that share each piece of --text, so that none has all of its tokens; a power of two");
  training("--rank-timeout", a.rank_timeout, "Seconds that a rank under mpirun waits for another one");
}

void add_reports(CLI::App& command, TrainArguments& a) {
  command
      .add_option("--html", a.html,
                  "Write a page for a browser, anew at each validation: curves, and attention over time")
      ->type_name("FILE")
      ->group("Report");
  command
      .add_option("--html-lines", a.html_lines,
                  "Watch the attention in these lines of the validation data, from 1 [the first three of moderate "
                  "length]")
      ->type_name("N,N")
      ->group("Report");
  command.add_option("--tensorboard", a.tensorboard, "Write event files for TensorBoard into this directory")
      ->type_name("DIR")
      ->group("Report");
  command
      .add_option("--timeline", a.timeline,
                  "Write what each rank does when in the second update of this run, for ui.perfetto.dev")
      ->type_name("FILE")
      ->group("Report");
}

}  // namespace

void add_train_options(CLI::App& command, TrainArguments& a) {
  command.option_defaults()->always_capture_default();
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  command.add_option("--config", a.config, "Take options from a TOML file; the command line wins")
      ->configurable(false)
      ->type_name("FILE");
  command.add_flag("--dump-config", a.dump_config, "Print all options as TOML and leave")->configurable(false);
  command.add_option("--resume", a.resume, "Go on with the training in this directory; other options may be left out")
      ->type_name("DIR")
      ->configurable(false);
  command.add_option("-t,--threads", a.threads, "Threads; 0 for HEED_NUM_THREADS, else for one per hardware thread")
      ->check(CLI::Range(0, 4096));
  command.add_option("-s,--seed", a.options.seed, "Seed of initial weights, order and dropout")->check(whole_number());

  add_data_options(command, a);
  add_shape_options(command, a);
  add_steps(command, a);
  add_reports(command, a);
  show_defaults(command);
}

}  // namespace heed::cli
