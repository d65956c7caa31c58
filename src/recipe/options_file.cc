#include "recipe/options_file.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "heed/file_kind.h"
#include "heed/model_files.h"
#include "heed/text.h"
#include "recipe/config_file.h"
#include "recipe/settings.h"

namespace heed::inline v0 {
namespace {

// A path as it is called from the directory `base`; "-" is standard input everywhere.
std::string based_on(const std::filesystem::path& base, const std::string& path) {
  return path == "-" || path.empty() ? path : (base / path).lexically_normal().string();
}

const TrainingOption* option_of(const std::string& key) {
  for (const TrainingOption& option : training_options())
    if (option.key == key) return &option;
  return nullptr;
}

constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"epochs", "max-epochs"},
    {"num-epochs", "max-epochs"},
    {"num-train-epochs", "max-epochs"},
    {"steps", "max-updates"},
    {"max-steps", "max-updates"},
    {"iterations", "max-updates"},
    {"max-iters", "max-updates"},
    {"lr", "learning-rate"},
    {"batch-size", "batch-tokens"},
    {"batch-size", "batch"},
    {"time", "max-minutes"},
    {"minutes", "max-minutes"},
    {"train", "pairs"},
    {"data", "pairs"},
    {"src", "source"},
    {"tgt", "target"},
    {"dev", "valid-pairs"},
    {"valid", "valid-pairs"},
    {"validation", "valid-pairs"},
    {"save-dir", "model"},
    {"output-dir", "model"},
    {"checkpoint", "model"},
    {"model-dir", "model"},
    {"model-path", "model"},
    {"continue", "resume"},
    {"vocab", "vocabulary"},
    {"hidden-size", "d-model"},
    {"embed-dim", "d-model"},
    {"dim", "d-model"},
    {"num-heads", "heads"},
    {"num-layers", "layers"},
    {"ffn-dim", "feed-forward"},
    {"optimizer", "weight-decay"},
    {"early-stopping", "patience"},
};

// "; did you mean warmup?", or where the options are listed.
std::string nearest_option(const std::string& key) {
  std::string names;
  for (const auto& [elsewhere, here] : kElsewhere)
    if (key == elsewhere && option_of(std::string(here))) names += (names.empty() ? "" : " or ") + std::string(here);
  std::vector<std::string> known;
  for (const TrainingOption& option : training_options()) known.push_back(option.key);
  const std::string hint = names.empty() ? did_you_mean(key, known) : "; did you mean " + names + "?";
  return hint.empty() ? "; heed train --help-all lists them" : hint;
}

// The first line of kTrainOptionsFile.
constexpr std::string_view kKeptByHeed = "# The options of this training, kept by heed train for --resume.";
// Before there was that line, every such file had these options; other files do not name all of them.
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

// A placeholder for an option without a value: a permitted value, or the name of the value, which is no TOML.
std::string placeholder(const TrainingOption& option) {
  using Kind = TrainingOption::Kind;
  if (option.kind == Kind::flag) return "false";
  if (option.several) return "[]";
  if (!option.choices.empty()) return "\"" + option.choices.front() + "\"";
  if (option.kind == Kind::text) return "\"\"";
  return std::string_view(option.value) == "RANK" ? "RANK" : option.kind == Kind::number ? "X" : "N";
}

enum class Written : uint8_t {
  given,          // options that were given or chosen, paths as they were given
  all,            // options that have a value; paths are absolute, so that it runs from anywhere
  all_described,  // the same with comments, and as comments the options that have none
};

std::string as_toml(const TrainingSettings& s, Written what) {
  const bool described = what == Written::all_described;
  std::string toml;
  for (const TrainingOption& option : training_options()) {
    if (s.unused.contains(option.field)) continue;
    std::vector<std::string> values = option_values(s.given, option.field);
    if (values.empty() && what != Written::given) values = {option.standard};
    std::erase(values, "");
    if (values.empty() && !described) continue;
    if (option.path && what != Written::given)
      for (std::string& value : values) value = based_on(std::filesystem::current_path(), value);
    if (described) toml += "# " + help_of(option, s.given.spelling) + "\n";
    const bool quoted = option.path;
    toml += values.empty() ? "# " + option.key + " = " + placeholder(option) + "\n"
                           : toml_line(option.key, values, option.several, quoted) + "\n";
    if (described) toml += "\n";
  }
  return toml;
}

}  // namespace

std::span<const std::pair<std::string_view, std::string_view>> names_elsewhere() { return kElsewhere; }

TrainingRequest parse_options(std::string_view toml, const std::string& path, const TrainingRequest& given) {
  const std::filesystem::path base = std::filesystem::path(path).parent_path();
  TrainingRequest options{.spelling = given.spelling};
  for (ConfigEntry& entry : parse_config(toml, path)) {
    const std::string where = path + ": line " + std::to_string(entry.line) + ": ";
    const TrainingOption* const option = option_of(entry.name);
    if (!option) throw FormatError(where + "there is no option '" + entry.name + "'" + nearest_option(entry.name));
    if (entry.values.size() > 1 && !option->several)
      throw FormatError(where + entry.name + " has " + std::to_string(entry.values.size()) + " values; it takes one");
    if (option->path)
      for (std::string& value : entry.values) value = based_on(base, value);
    try {
      set_option(options, option->field, entry.values);
    } catch (const UsageError& e) {
      throw FormatError(where + e.what());
    }
  }
  return options;
}

std::string read_kept_options(const DirectorySnapshot& files, const std::string& directory) {
  std::string toml = files.read(kTrainOptionsFile, kLargestOptions);
  if (!kept_by_heed(toml))
    throw FormatError(directory + "/" + kTrainOptionsFile + ": not the options of a training, whose first line is '" +
                      std::string(kKeptByHeed) + "'; move it away, or choose another directory");
  return toml;
}

TrainingRequest read_options(const std::string& path) {
  expect_regular_file(path, kLargestOptions);
  return parse_options(read_file(path, kLargestOptions), path, {});
}

std::string describe_options(const TrainingRequest& request) {
  return as_toml(completed(request, /*only_described=*/true), Written::all_described);
}

std::string options_to_keep(const TrainingSettings& s) {
  return std::string(kKeptByHeed) + "\n" + as_toml(s, Written::all);
}

std::string options_for_card(const TrainingSettings& s) { return as_toml(s, Written::given); }

}  // namespace heed::inline v0
