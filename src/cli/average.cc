// heed average: one model whose weights are the mean of several.
#include <memory>

#include "cli/commands.h"
#include "cli/paths.h"
#include "heed/load.h"
#include "heed/pretrained.h"

namespace heed::cli {
namespace {

struct AverageArguments {
  std::vector<std::string> models;
  std::string to;
  bool trust = false, overwrite = false;
  Existing existing() const { return overwrite ? Existing::replace : Existing::refuse; }
};

void average(const AverageArguments& a) {
  if (a.models.size() < 2) throw UsageError("average: one model is its own mean; give two directories or more");
  for (size_t i = 0; i < a.models.size(); ++i) {
    if (same_file(a.models[i], a.to))
      throw UsageError("--to " + a.to + " is one of the models; give another directory");
    for (size_t j = 0; j < i; ++j)
      if (same_file(a.models[i], a.models[j]))
        throw UsageError("average: " + a.models[i] + " is given twice; give each model once");
  }
  expect_writable_directory("--to", a.to);
  if (is_pretrained(a.models[0]))
    check_pretrained_target("--to " + a.to, a.to);
  else
    check_target("--to " + a.to, a.to, a.existing(), "give --overwrite");
  average_models(a.models, a.to, {.trust = a.trust, .existing = a.existing()});
}

}  // namespace

void add_average(CLI::App& program) {
  const auto a = std::make_shared<AverageArguments>();
  CLI::App* command = program.add_subcommand("average", "Make one model of the mean of several models' weights");
  command->description(
      "Make one model of the mean of several models' weights\n\n"
      "The models must have one configuration and one vocabulary: trainings from one --init, or saved copies of one\n"
      "training. Sums are in double precision. Other makers' models keep their layout and their precision.");
  command->add_option("models", a->models, "Directories of the models")->required()->type_name("DIR");
  command->add_option("-o,--to,--output", a->to, "Directory to write")->required()->type_name("DIR");
  command->add_flag("--overwrite", a->overwrite, "Replace the model of heed's own that the directory holds");
  command->add_flag("--trust", a->trust, "Copy a vocabulary that heed did not make");
  command->footer("Example:\n  heed average run-1 run-2 run-3 --to mean");
  command->callback([a] {
    average(*a);
    note("wrote " + a->to);
  });
}

}  // namespace heed::cli
