// heed translate: a line in, a line out.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/translator.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

constexpr size_t kWindow = 2048;  // lines that are sorted by length together

struct TranslateArguments {
  std::string model;
  bool trust = false, scores = false, alignment = false;
  BeamOptions beam;
  int64_t batch = 32;
};

void print(const TranslateArguments& a, const TranslatedLine& line, int64_t number) {
  for (Translation t : line.best) {
    for (char& c : t.text)
      if (c == '\n' || c == '\r' || c == '\t') c = ' ';  // one line, and tabs separate columns
    if (a.beam.n_best > 1) std::cout << number << '\t';
    std::cout << t.text;
    if (a.scores) {
      char score[32];
      std::snprintf(score, sizeof score, "\t%.4f", t.score);
      std::cout << score;
    }
    if (a.alignment) {
      std::cout << '\t';
      const char* space = "";
      for (const auto& [source, target] : t.alignment) {
        std::cout << space << source << '-' << target;
        space = " ";
      }
    }
    std::cout << '\n';
  }
}

void translate(TranslateArguments& a) {
  a.beam.want_alignment = a.alignment;
  const Translator translator(find_model(a.model), a.trust);
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  const size_t window = terminal ? 1 : kWindow;
  int64_t done = 0, replaced = 0;
  for (bool more = true; more;) {
    std::vector<std::string> lines;
    for (std::string line; lines.size() < window && (more = static_cast<bool>(std::getline(std::cin, line)));) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      lines.push_back(sanitize_utf8(line, &replaced));
    }
    const std::vector<TranslatedLine> results = translator.translate(lines, a.beam, a.batch);
    for (const TranslatedLine& result : results) {
      print(a, result, ++done);
      if (result.cut)
        warn("translate", "line " + std::to_string(done) + " is longer than the model takes and was cut to " +
                              std::to_string(translator.model().config().max_positions - 1) + " tokens");
    }
    finish_output();
  }
  if (std::cin.bad()) throw IoError("reading standard input failed");
  if (replaced > 0) warn("translate", "replaced malformed UTF-8 by U+FFFD in " + std::to_string(replaced) + " places");
}

}  // namespace

void add_translate(CLI::App& program) {
  const auto a = std::make_shared<TranslateArguments>();
  CLI::App* command = program.add_subcommand("translate", "Translate standard input, line by line");
  command->description(
      "Translates each line of standard input to one line on standard output, in order. Empty lines stay empty.\n"
      "The model is --model, else HEED_MODEL, else the bundled one (Spanish to English).\n"
      "Further columns come behind tabs: the line's number in front with --n-best, then text, score, alignment.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command->add_option("--model", a->model, "Directory of the model")->type_name("DIR");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make");
  BeamOptions& beam = a->beam;
  command->add_option("--beam", beam.beam, "Hypotheses kept; 1 is greedy")->check(CLI::Range(1, 1000));
  command->add_option("--length-penalty", beam.length_penalty, "Score is log p / length^penalty");
  command->add_option("--max-length", beam.max_length, "Longest translation in tokens; 0 for twice the source and 10")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--n-best", beam.n_best, "Translations a line, best first")->check(CLI::Range(1, 1000));
  command->add_option("--batch", a->batch, "Sentences decoded together")->check(CLI::Range(1, 1 << 16));
  command->add_flag("--scores", a->scores, "Add the score");
  command->add_flag("--alignment", a->alignment, "Add word alignments, source-target, from cross-attention");
  command->footer("Example:\n  echo 'Hola, mi nombre es Alex.' | heed translate --scores");
  command->callback([a] { translate(*a); });
}

}  // namespace heed::cli
