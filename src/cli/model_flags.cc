#include "cli/model_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <variant>

#include "cli/commands.h"
#include "heed/config_fields.h"

namespace heed::cli {
namespace {

constexpr std::string_view kSourceVocabulary = "source_vocab_size";

std::string replaced(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

template <class Config>
Flags collect(const Config& config) {
  Flags flags;
  for (auto& [field, value] : field_values(config))
    if (field.option)
      flags.emplace_back(field.option, field.name == kSourceVocabulary ? value == "0" ? "false" : "true" : value);
  return flags;
}

// An option writes to each of its variables; CLI11 would bind it to one.
class AddOptions {
 public:
  explicit AddOptions(CLI::App& command) : command_(command) {}

  void integer(const Field& field, int64_t& value, int64_t, int64_t) { add(field, value, std::to_string(value)); }
  void integer(const Field&, int32_t&, int64_t, int64_t) {}  // an id
  void optional(const Field&, int64_t&, int64_t) {}          // a switch among the options of the data
  void probability(const Field& field, double& value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", value);
    if (CLI::Option* option = add(field, value, digits)) option->check(finite_number());
  }
  void flag(const Field& field, bool& value) { add(field, value, value ? "true" : "false"); }
  void choice(const Field& field, std::string& value, const std::vector<std::string>& names) {
    std::vector<std::string> typed;
    std::transform(names.begin(), names.end(), std::back_inserter(typed), hyphened);
    if (CLI::Option* option = add(field, value, hyphened(value))) option->transform(one_of(typed));
  }

 private:
  // The option, where this is the first field of that name.
  template <class T>
  CLI::Option* add(const Field& field, T& value, const std::string& standard) {
    std::shared_ptr<Variables>& variables = variables_[field.option];
    if (variables) {
      variables->emplace_back(&value);
      return nullptr;
    }
    variables = std::make_shared<Variables>(Variables{&value});
    const auto set = [all = variables](const T& given) {
      for (const Variable& one : *all) {
        if constexpr (std::is_same_v<T, std::string>)
          *std::get<T*>(one) = replaced(given, '-', '_');
        else
          *std::get<T*>(one) = given;
      }
    };
    return command_.add_option_function<T>(field.option, set, field.help)->default_str(standard)->group("Model");
  }

  using Variable = std::variant<int64_t*, double*, bool*, std::string*>;
  using Variables = std::vector<Variable>;
  CLI::App& command_;
  std::map<std::string, std::shared_ptr<Variables>> variables_;
};

}  // namespace

Flags flags_of(const TransformerConfig& config) { return collect(config); }
Flags flags_of(const LanguageModelConfig& config) { return collect(config); }

void add_model_options(CLI::App& command, TransformerConfig& translator, LanguageModelConfig& language_model) {
  AddOptions add(command);
  visit_fields(translator, add);
  visit_fields(language_model, add);
}

std::string hyphened(std::string value) { return replaced(std::move(value), '_', '-'); }

}  // namespace heed::cli
