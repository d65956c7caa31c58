#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

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
        if (field.option && std::string_view(field.option) != field.name)
          all.emplace(field.name, with_dashes(field.option));
    return all;
  }();
  return names;
}

constexpr std::string_view kOfWord = "abcdefghijklmnopqrstuvwxyz0123456789_";

// The first word from `at` on that is no part of a path: it begins the text or follows a space or a parenthesis.
// Messages may hold texts of any length, which a regular expression would recurse over.
size_t next_word(std::string_view text, size_t at) {
  const auto begins = [&](size_t i) {
    return text[i] >= 'a' && text[i] <= 'z' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '(');
  };
  while (at < text.size() && !begins(at)) ++at;
  return at;
}

bool ends_word(std::string_view after) {
  return after.empty() || std::string_view(" ,;:).").find(after[0]) != std::string_view::npos ||
         after.starts_with("'s ");
}

// Whether a value follows: " is 0", " 32 is no multiple", " 5, not 6".
bool judges(std::string_view after) {
  if (!after.starts_with(' ')) return false;
  after.remove_prefix(1);
  const size_t space = std::min(after.find(' '), after.size()),
               end = std::min(after.find_first_of(" ,;"), after.size());
  return after.starts_with("is ") || (space > 0 && after.substr(space).starts_with(" is ")) ||
         (end > 0 && after.substr(end).starts_with(", not "));
}

// Whether the option can have the value that a message judges: "head 9.9 is not there" is not of --head, a whole
// number.
bool takes(const CLI::Option& option, std::string_view after) {
  const std::string_view value = after.substr(1, after.find(' ', 1) - 1);
  const bool number = !value.empty() && value.find_first_not_of("-0123456789.") == std::string_view::npos;
  return !number || value.find('.') == std::string_view::npos || !option.get_type_name().starts_with("INT");
}

}  // namespace

std::string flag_of(const std::string& field) {
  if (const auto named = named_flags().find(field); named != named_flags().end()) return named->second;
  return with_dashes(field);
}

std::string with_option(const std::string& message, const CLI::App& command) {
  size_t verb = 0;  // the length of "open " and its like
  for (const std::string_view one : {"open ", "open directory ", "read ", "list ", "stat "})
    if (message.starts_with(one)) verb = one.size();
  if (verb == 0) return message;
  const std::string_view rest = std::string_view(message).substr(verb);
  // The message with `name` before the value that it is about; "" if it is about another value.
  const auto named = [&](const std::string& name, const std::string& value) -> std::string {
    if (value.empty() || value == "-" || !rest.starts_with(value)) return "";
    const std::string_view after = rest.substr(value.size());
    if (after.starts_with(": ")) return name + value + std::string(after);
    return after.starts_with('/') || value.ends_with('/') ? name + value + ": " + message : "";
  };
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results()) {
      const std::string name = option->get_lnames().empty() ? "" : "--" + option->get_lnames().front() + " ";
      if (std::string text = named(name, value); !text.empty()) return text;
    }
  const char* const model = std::getenv("HEED_MODEL");
  const std::string text = model ? named("HEED_MODEL ", model) : "";
  return text.empty() ? message : text;
}

std::string with_flags(const std::string& message, const CLI::App& command) {
  const std::string_view all = message;
  std::string text;
  size_t copied = 0;
  for (size_t at = 0; (at = next_word(all, at)) < all.size();) {
    const size_t end = std::min(all.find_first_not_of(kOfWord, at), all.size());
    const std::string field(all.substr(at, end - at));
    const std::string_view before = all.substr(0, at), after = all.substr(end);
    const size_t begin = std::exchange(at, end);
    if (!ends_word(after)) continue;
    const bool certain = field.find('_') != std::string::npos || named_flags().contains(field);
    const bool judged = judges(after) && (before.empty() || before.ends_with(": ") || before.ends_with("began with "));
    if (!certain && !judged) continue;
    const std::string flag = flag_of(field);
    const CLI::Option* const option = command.get_option_no_throw(flag);
    if (!option || (!certain && !takes(*option, after))) continue;
    text.append(all.substr(copied, begin - copied)).append(flag);
    copied = end;
  }
  return text.append(all.substr(copied));
}

}  // namespace heed::cli
