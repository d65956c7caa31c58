// What is wrong with the options of a training, for messages that name them.
#include <string>
#include <variant>

#include "cli/train_options.h"
#include "heed/error.h"
#include "heed/finite.h"

namespace heed::cli {

Vocabulary learn_vocabulary(const std::vector<std::string>& lines, const VocabularyOptions& options) {
  try {
    return Vocabulary::train(lines, options);
  } catch (const ShapeError& e) {
    const std::string text = e.what(), operation = "train a vocabulary: ";
    if (!text.starts_with(operation) || text.find("size") == std::string::npos) throw;
    throw ShapeError("--vocab-size " + std::to_string(options.size) + ": " + text.substr(operation.size()));
  }
}

void expect_kind(const char* option, const std::string& directory, const ModelConfig& config, bool of_text) {
  const bool holds_writer = std::holds_alternative<LanguageModelConfig>(config);
  if (holds_writer == of_text) return;
  throw UsageError(std::string(option) + " " + directory +
                   (holds_writer ? " holds a language model, which learns from a text; give --text instead of pairs"
                                 : " holds a translator, which learns from pairs; give --pairs instead of --text") +
                   ", or another " + option);
}

void expect_finite(const Module& model) {
  if (const auto found = first_non_finite(model))
    throw FormatError(*found + "; the model is damaged: begin with another copy");
}

void check_effects(const CLI::App& command, const TrainArguments& a) {
  const auto given = [&](const char* name) { return !command.get_option(name)->empty(); };
  const bool from_elsewhere = !a.config.empty() || !a.resume.empty() || a.pairs_in_memory;
  if (given("--vocab-type") && a.vocab_type == "characters")
    for (const char* const name : {"--vocab-size", "--character-coverage"})
      if (given(name))
        throw UsageError(std::string(name) +
                         " is of subwords, and --vocab-type characters takes every character; give either");
  const bool falls = a.schedule == "linear" || a.schedule == "cosine";
  if (given("--schedule") && !falls && given("--min-learning-rate"))
    throw UsageError("--min-learning-rate is what --schedule linear and cosine end at; --schedule " + a.schedule +
                     " has no end: leave one out");
  const bool columns = !a.pairs.pairs.empty() || !a.valid_pairs.pairs.empty() || a.of_labels();
  if (given("--columns") && !columns && !from_elsewhere && !a.of_text())
    throw UsageError("--columns is of --pairs, --valid-pairs and --labelled; leave it out");
}

}  // namespace heed::cli
