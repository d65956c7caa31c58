// Checks of the options of a training, with messages that name them.
#include <charconv>
#include <string>
#include <variant>

#include "heed/config_fields.h"
#include "heed/error.h"
#include "heed/finite.h"
#include "recipe/settings.h"

namespace heed::inline v0 {

Vocabulary learn_vocabulary(const std::string& option, const std::vector<std::string>& lines,
                            const VocabularyOptions& options) {
  try {
    return Vocabulary::train(lines, options);
  } catch (const ShapeError& e) {
    const std::string text = e.what(), operation = "train a vocabulary: ";
    if (!text.starts_with(operation) || text.find("size") == std::string::npos) throw;
    throw ShapeError(option + " " + std::to_string(options.size) + ": " + text.substr(operation.size()));
  }
}

void expect_kind(const TrainingSettings& a, const char* field, const std::string& directory,
                 const ModelConfig& config) {
  const bool holds_writer = std::holds_alternative<LanguageModelConfig>(config);
  if (holds_writer == a.of_text()) return;
  const std::string text = a.name("text"), pairs = a.name("pairs");
  throw UsageError(a.named(field, directory) +
                   (holds_writer
                        ? " holds a language model, which learns from a text; give " + text + " instead of pairs"
                        : " holds a translator, which learns from pairs; give " + pairs + " instead of " + text) +
                   ", or another " + a.name(field));
}

template <class Config>
static void check_fields_of(const TrainingSettings& a, const Config& shape) {
  check_fields(shape, "", [&](const std::string& name) {
    for (const auto& [field, value] : field_values(shape))
      if (field.option && name == field.name) return a.name(field.option);
    return name;
  });
}

void check_shape(const TrainingSettings& a, const TransformerConfig& shape) { check_fields_of(a, shape); }
void check_shape(const TrainingSettings& a, const LanguageModelConfig& shape) { check_fields_of(a, shape); }

std::pair<int, int> parse_columns(const TrainingSettings& a) {
  const std::string& text = a.columns;
  const std::string given = a.named("columns", text);
  int source = 0, target = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, source);
  const bool two = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = two ? std::from_chars(first.ptr + 1, end, target) : first;
  if (!two || second.ec != std::errc() || second.ptr != end || source < 1 || target < 1)
    throw UsageError(given + ": give the columns of source and target, counted from 1, as in 2,1");
  if (source == target)
    throw UsageError(given + ": source and target are one column; give two, counted from 1, as in 2,1");
  return {source, target};
}

static void check_files(const PairFiles& files, const std::string& pairs, const std::string& source,
                        const std::string& target) {
  if (!files.pairs.empty() && (!files.source.empty() || !files.target.empty()))
    throw UsageError("give either " + pairs + ", or " + source + " and " + target);
  if (files.source.empty() != files.target.empty()) throw UsageError("give both " + source + " and " + target);
  const size_t sources = files_of(files.source).size(), targets = files_of(files.target).size();
  if (sources != targets)
    throw UsageError(source + " names " + std::to_string(sources) + " files and " + target + " " +
                     std::to_string(targets) + "; each file of sources needs its file of targets");
}

void check_pair_files(const TrainingSettings& a) {
  check_files(a.pairs(), a.name("pairs"), a.name("source"), a.name("target"));
}

void check_valid_pair_files(const TrainingSettings& a) {
  check_files(a.valid_pairs(), a.name("valid_pairs"), a.name("valid_source"), a.name("valid_target"));
}

std::string with_option(const std::string& message, const TrainingRequest& request) {
  size_t verb = 0;  // the length of "open " and its like
  for (const std::string_view one : {"open ", "open directory ", "read ", "list ", "stat "})
    if (message.starts_with(one)) verb = one.size();
  if (verb == 0) return message;
  const std::string_view rest = std::string_view(message).substr(verb);
  for (const TrainingOption& option : training_options())
    for (const std::string& value : option_values(request, option.field)) {
      if (value.empty() || value == "-" || !rest.starts_with(value)) continue;
      const std::string name = (request.spelling ? request.spelling(option.field) : option.field) + " " + value;
      const std::string_view after = rest.substr(value.size());
      if (after.starts_with(": ")) return name + std::string(after);
      if (after.starts_with('/') || value.ends_with('/')) return name + ": " + message;
    }
  return message;
}

void expect_finite(const Module& model) {
  if (const auto found = first_non_finite(model))
    throw FormatError(*found + "; the model is damaged: begin with another copy");
}

}  // namespace heed::inline v0
