// The commands, one file each, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/console.h"

namespace heed::cli {

void add_attend(CLI::App& program);
void add_attention(CLI::App& program);
void add_average(CLI::App& program);
void add_bench(CLI::App& program);
void add_classify(CLI::App& program);
void add_completion(CLI::App& program);
void add_embed(CLI::App& program);
void add_export(CLI::App& program);
void add_fill(CLI::App& program);
void add_generate(CLI::App& program);
void add_help(CLI::App& program);
void add_inspect(CLI::App& program);
void add_logits(CLI::App& program);
void add_prepare(CLI::App& program);
void add_score(CLI::App& program);
void add_serve(CLI::App& program);
void add_tokenize(CLI::App& program);
void add_train(CLI::App& program);
void add_translate(CLI::App& program);

/// Refuses what is not a number from 0 to 2^64 - 1 written in digits: CLI11 itself wraps and clamps.
CLI::Validator whole_number();

/// Refuses NaN, infinities and what is no number. For every option that takes a fraction: ranges let NaN pass.
CLI::Validator finite_number();

/// Refuses what is less or more than these. For fractions: CLI::Range says them with six digits behind the point.
CLI::Validator in_range(double least, double most);

/// Refuses an empty value: a variable that a script forgot to set would change what is done without a word. Options
/// that take a FILE or a DIR have it of themselves.
CLI::Validator not_empty();

/// For CLI::Option::transform: takes these, with underscores for hyphens, too, and makes them hyphens. `spellings` are
/// further ones that are taken, each with the value it stands for.
CLI::Validator one_of(const std::vector<std::string>& choices,
                      const std::vector<std::pair<std::string, std::string>>& spellings = {});

/// What CLI11 found wrong with a value, with what is permitted: "--beam: 'many' is no whole number".
std::string parse_error_in_words(const CLI::ParseError& error, const CLI::App& command);

/// "; did you mean --batch-tokens or --batch?" for a command or an option as other programs call it, or nothing;
/// options are of those that are known.
std::string called_elsewhere(const std::string& command);
std::string called_elsewhere(const std::string& option, const std::vector<std::string>& known);

/// Threads of all that is computed after it: `threads`; where that is 0, what the environment variable says; where it
/// says nothing or 0, one for each hardware thread. Throws UsageError for another value of the variable.
void use_threads(int threads);
inline constexpr const char* kThreadsVariable = "HEED_NUM_THREADS";

}  // namespace heed::cli
