// Values as they are typed: which are taken, and what a wrong one was meant to be.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "cli/commands.h"
#include "cli/help.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/text.h"

namespace heed::cli {
std::string parse_error_in_words(const CLI::ParseError& error, const CLI::App& command) {
  const std::string text = error.what();
  // "--beam: Value many not in range 1 to 1000"
  constexpr std::string_view kValue = ": Value ", kRange = " not in range ";
  if (const size_t at = text.find(kValue), range = text.rfind(kRange); at != text.npos && range != text.npos) {
    const std::string value = text.substr(at + kValue.size(), range - at - kValue.size());
    int64_t number = 0;
    const bool whole =
        std::from_chars(value.data(), value.data() + value.size(), number).ptr == value.data() + value.size();
    return text.substr(0, at) + (whole ? ": " + value + " is not in the range " + text.substr(range + kRange.size())
                                       : ": '" + value + "' is not a whole number");
  }
  // "--pairs: 1 required FILE ... missing"
  if (const size_t at = text.find(": "); text.ends_with(" missing") && text.find(" required ") != text.npos)
    if (const CLI::Option* option = command.get_option_no_throw(text.substr(0, at)))
      return text.substr(0, at) + " needs a value: " + text.substr(0, at) + " " + describe(*option).value;
  // "Could not convert: --beam = many"
  constexpr std::string_view kConversion = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (!text.starts_with(kConversion) || equals == std::string::npos) return text;
  const std::string name = text.substr(kConversion.size(), equals - kConversion.size()),
                    value = text.substr(equals + 3);
  const CLI::Option* option = command.get_option_no_throw(name);
  const std::string type = option ? option->get_type_name() : "";
  const bool flag = option && option->get_items_expected_max() == 0;
  const char* const permitted = flag || type == "BOOLEAN"                             ? "true or false"
                                : type.starts_with("INT") || type.starts_with("UINT") ? "a whole number"
                                                                                      : "a number";
  return name + ": '" + value + "' is not " + permitted;
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return std::string(text.empty() ? "it is empty; give a value" : ""); }, "");
}

CLI::Validator finite_number() {
  return CLI::Validator(
      [](const std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
        return good ? std::string() : text + " is not a finite number";
      },
      "");
}

CLI::Validator in_range(double least, double most) {
  using CLI::detail::to_string;  // 0.01, not 0.010000
  return CLI::Validator(
      [least, most](const std::string& text) {
        double number = 0;
        const bool bad = !CLI::detail::lexical_cast(text, number) || number < least || number > most;
        return bad ? text + " is not in the range " + to_string(least) + " to " + to_string(most) : std::string();
      },
      "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number);
        return error == std::errc() && rest == end ? std::string() : text + " is not a number from 0 to 2^64 - 1";
      },
      "UINT");
}

void use_threads(int threads) {
  const char* const text = std::getenv(kThreadsVariable);
  if (threads > 0 || !text || !*text) return set_threads(threads);
  const std::string_view digits = text;
  const auto [rest, error] = std::from_chars(digits.begin(), digits.end(), threads);
  if (error != std::errc() || rest != digits.end() || threads < 0 || threads > 4096)
    throw UsageError(std::string(kThreadsVariable) + " is '" + text +
                     "'; set it to a number from 0 to 4096, 0 for one thread per hardware thread");
  set_threads(threads);
}

CLI::Validator one_of(const std::vector<std::string>& choices,
                      const std::vector<std::pair<std::string, std::string>>& spellings) {
  std::string listed;
  for (const std::string& choice : choices) listed += (listed.empty() ? "" : ",") + choice;
  const auto check = [choices, spellings](std::string& value) -> std::string {
    for (const auto& [spelling, stands_for] : spellings)
      if (value == spelling) {
        value = stands_for;
        return "";
      }
    std::string hyphened = value;
    std::replace(hyphened.begin(), hyphened.end(), '_', '-');
    if (std::find(choices.begin(), choices.end(), hyphened) != choices.end()) {
      value = hyphened;
      return "";
    }
    std::string all;
    for (const std::string& choice : choices) all += (all.empty() ? "" : ", ") + choice;
    return "'" + value + "' is not one of " + all + did_you_mean(hyphened, choices);
  };
  return CLI::Validator(check, "{" + listed + "}");
}

}  // namespace heed::cli
