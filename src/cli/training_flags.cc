#include "cli/training_flags.h"

#include <cmath>

#include "cli/commands.h"

namespace heed::cli {

std::string training_flag(const std::string& field) {
  for (const TrainingOption& option : training_options())
    if (field == option.field) return "--" + option.key;
  return "--" + field;
}

CLI::Option* add_training_flag(CLI::App& command, TrainingRequest& request, const std::string& field) {
  using Kind = TrainingOption::Kind;
  const TrainingOption& option = training_option(field);
  std::string names = training_flag(field);
  if (field == "model") names = "-m," + names;
  if (field == "threads") names = "-t," + names;
  if (field == "seed") names = "-s," + names;
  const auto set = [&request, field](const std::vector<std::string>& values) { set_option(request, field, values); };
  const std::string help = help_of(option, training_flag);
  CLI::Option* added = nullptr;
  if (option.kind == Kind::flag) {
    added = command.add_flag_function(
        names, [set](int64_t count) { set({count > 0 ? "true" : "false"}); }, help);
  } else if (option.several) {
    added = command.add_option_function<std::vector<std::string>>(names, set, help)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else {
    added = command
                .add_option_function<std::string>(
                    names, [set](const std::string& value) { set({value}); }, help)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  if (option.kind != Kind::flag) added->type_name(option.value)->default_str(option.standard);
  if (!option.choices.empty()) added->transform(one_of(option.choices));
  if (option.group[0] != '\0') added->group(option.group);
  return added;
}

void add_training_flags(CLI::App& command, TrainingRequest& request) {
  command.add_option("--config", request.config, "Take options from a TOML file; the command line wins")
      ->type_name("FILE");
  command
      .add_option("--resume", request.resume, "Continue the training in this directory; other options may be left out")
      ->type_name("DIR");
  for (const TrainingOption& option : training_options()) add_training_flag(command, request, option.field);
}

}  // namespace heed::cli
