// Names of heed's options and commands in other programs.
#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/commands.h"
#include "heed/recipe.h"

namespace heed::cli {
namespace {

// The name elsewhere, and heed's: an option where the command has it, or a command. names_elsewhere() has the options
// of trainings.
constexpr std::pair<std::string_view, std::string_view> kCalledElsewhere[] = {
    {"--num-beams", "--beam"},
    {"--beam-size", "--beam"},
    {"--nbest", "--n-best"},
    {"--do-sample", "--sample"},
    {"--temp", "--temperature"},
    {"--max-new-tokens", "--max-tokens"},
    {"--num-tokens", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--length", "--max-tokens"},
    {"--ref", "--reference"},
    {"--refs", "--reference"},
    {"--in", "--input"},
    {"--file", "--input"},
    {"--precision", "--dtype"},
    {"--workers", "--threads"},
    {"--jobs", "--threads"},
    {"--cpus", "--threads"},
    {"--num-threads", "--threads"},
    {"--silent", "--quiet"},
    {"version", "--version"},
    {"usage", "help"},
    {"man", "help --man"},
    {"infer", "translate"},
    {"predict", "translate"},
    {"decode", "translate"},
    {"finetune", "train"},
    {"fine-tune", "train"},
    {"learn", "train"},
    {"complete", "generate"},
    {"chat", "generate --interactive"},
    {"bleu", "score"},
    {"evaluate", "score"},
    {"eval", "score"},
    {"encode", "tokenize"},
    {"convert", "export"},
    {"quantize", "export"},
    {"info", "inspect"},
    {"show", "attend"},
    {"plot", "attend"},
    {"visualize", "attend"},
    {"server", "serve"},
    {"benchmark", "bench"},
};

std::string hint_of(const std::string& typed, const std::vector<std::string>* known) {
  std::string names;
  for (const auto& [elsewhere, here] : kCalledElsewhere)
    if (typed == elsewhere && (!known || std::find(known->begin(), known->end(), here) != known->end()))
      names += (names.empty() ? "" : " or ") + std::string(here);
  for (const auto& [elsewhere, here] : names_elsewhere()) {
    const std::string flag = "--" + std::string(here);
    if (typed == "--" + std::string(elsewhere) && known &&
        std::find(known->begin(), known->end(), flag) != known->end())
      names += (names.empty() ? "" : " or ") + flag;
  }
  return names.empty() ? "" : "; did you mean " + names + "?";
}

}  // namespace

std::string called_elsewhere(const std::string& command) { return hint_of(command, nullptr); }

std::string called_elsewhere(const std::string& option, const std::vector<std::string>& known) {
  return hint_of(option, &known);
}

}  // namespace heed::cli
