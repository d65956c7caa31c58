#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <regex>
#include <string_view>

#include "heed/config_fields.h"

namespace heed::cli {
namespace {

std::string with_dashes(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

// Fields whose flag is not their name with dashes.
const std::map<std::string, std::string>& named_flags() {
  static const std::map<std::string, std::string> names = [] {
    std::map<std::string, std::string> all{{"learning_rate_floor", "--min-learning-rate"},
                                           {"schedule_total", "--max-updates"},
                                           {"criterion", "--validate-by"}};
    for (const auto& fields : {field_values(TransformerConfig{}), field_values(LanguageModelConfig{})})
      for (const auto& [field, value] : fields)
        if (field.option && field.option != with_dashes(field.name)) all.emplace(field.name, field.option);
    return all;
  }();
  return names;
}

}  // namespace

std::string flag_of(const std::string& field) {
  if (const auto named = named_flags().find(field); named != named_flags().end()) return named->second;
  return with_dashes(field);
}

std::string with_option(const std::string& message, const CLI::App& command) {
  size_t verb = 0;  // the length of "open " and its like
  for (const std::string_view one : {"open ", "read ", "list ", "stat "})
    if (message.starts_with(one)) verb = one.size();
  if (verb == 0) return message;
  const std::string_view rest = std::string_view(message).substr(verb);
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results()) {
      if (value.empty() || value == "-" || !rest.starts_with(value)) continue;
      const std::string given = (option->get_lnames().empty() ? "" : "--" + option->get_lnames().front() + " ") + value;
      const std::string_view behind = rest.substr(value.size());
      if (behind.starts_with(": ")) return given + std::string(behind);
      if (behind.starts_with('/') || value.ends_with('/')) return given + ": " + message;
    }
  return message;
}

std::string with_flags(const std::string& message, const CLI::App& command) {
  // A whole word that is no part of a path.
  static const std::regex word("(^|[ (])([a-z][a-z0-9_]*)(?=[ ,;:).]|'s |$)");
  static const std::regex value(" (is |[^ ]+ is |[^ ,;]+, not )");
  std::string text;
  auto rest = message.begin();
  for (std::sregex_iterator it(message.begin(), message.end(), word), end; it != end; ++it) {
    const std::string field = (*it)[2];
    const bool certain = field.find('_') != std::string::npos || named_flags().contains(field);
    const auto behind = (*it)[2].second;
    const bool judged = std::regex_search(behind, message.end(), value, std::regex_constants::match_continuous) &&
                        ((*it)[2].first == message.begin() || message.substr(0, it->position(2)).ends_with(": ") ||
                         message.substr(0, it->position(2)).ends_with("began with "));
    const std::string flag = flag_of(field);
    if (!(certain || judged) || !command.get_option_no_throw(flag)) continue;
    text.append(rest, (*it)[2].first).append(flag);
    rest = behind;
  }
  return text.append(rest, message.end());
}

}  // namespace heed::cli
