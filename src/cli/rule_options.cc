#include "cli/rule_options.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace heed::cli {

void add_rules(CLI::App& command, TokenRules& rules, const char* shortest, const char* shortest_is) {
  command.add_option(shortest, rules.min_tokens, shortest_is)->check(CLI::Range(0, 1 << 24))->default_str("");
  command
      .add_option(
          "--repetition-penalty", rules.repetition_penalty,
          "Scores of tokens that are in the text are divided by it (multiplied, where negative); 1: nothing [1]")
      ->check(finite_number())
      ->default_str("");
  command
      .add_option("--no-repeat-ngram", rules.no_repeat_ngram_size,
                  "Write no row of so many tokens that is in the text already; 0: any [0]")
      ->check(CLI::Range(0, 1 << 24))
      ->default_str("");
}

}  // namespace heed::cli
