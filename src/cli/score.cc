// heed score: BLEU and chrF of a translation.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::cli {
namespace {

struct ScoreOptions {
  std::string reference;
  bool lowercase = false;
  bool json = false;
};

void print_text(const BleuScore& bleu, const ChrfScore& chrf) {
  std::cout << bleu.format() << '\n'
            << chrf.format() << '\n'
            << "BLEU signature: " << bleu.signature() << '\n'
            << "chrF2 signature: " << chrf.signature() << '\n';
}

void print_json(const BleuScore& bleu, const ChrfScore& chrf, std::size_t lines) {
  nlohmann::ordered_json out;
  out["lines"] = lines;
  out["BLEU"] = {
      {"score", bleu.score},          {"precisions", bleu.precisions},     {"brevity_penalty", bleu.brevity_penalty},
      {"ratio", bleu.ratio()},        {"hyp_len", bleu.hypothesis_length}, {"ref_len", bleu.reference_length},
      {"signature", bleu.signature()}};
  out["chrF2"] = {{"score", chrf.score}, {"signature", chrf.signature()}};
  std::cout << out.dump(2) << '\n';
}

void score(const ScoreOptions& options) {
  std::int64_t replaced = 0;
  const std::vector<std::string> references = read_lines(options.reference, &replaced);
  const std::vector<std::string> hypotheses = read_lines(std::cin, "standard input", &replaced);
  if (hypotheses.size() != references.size()) {
    throw FormatError(options.reference + " has " + std::to_string(references.size()) +
                      " lines but standard input has " + std::to_string(hypotheses.size()) +
                      "; each line of one must belong to a line of the other");
  }
  if (references.empty()) throw FormatError(options.reference + " and standard input have no lines");
  if (replaced > 0) {
    std::cerr << "heed score: replaced malformed UTF-8 by U+FFFD in " << replaced << " places\n";
  }
  const BleuScore b = bleu(hypotheses, references, {.lowercase = options.lowercase});
  const ChrfScore c = chrf(hypotheses, references, {.lowercase = options.lowercase});
  if (options.json) {
    print_json(b, c, references.size());
  } else {
    print_text(b, c);
  }
  std::cout.flush();
  if (!std::cout) throw IoError("write to standard output failed");
}

}  // namespace

void add_score(CLI::App& program) {
  const auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = program.add_subcommand("score", "BLEU and chrF of translations on standard input");
  command->description(
      "Scores the translations on standard input, one per line, against a file of references.\n"
      "BLEU and chrF2 are sacreBLEU's: 13a tokens, exponential smoothing, one reference.");
  command->add_option("--reference", options->reference, "File with the right translations, one per line")
      ->required()
      ->type_name("FILE");
  command->add_flag("--lowercase", options->lowercase, "Compare without regard to case");
  command->add_flag("--json", options->json, "Print JSON with all digits");
  command->footer("Example:\n  heed translate --model eng-spa < dev.en | heed score --reference dev.es");
  command->callback([options] { score(*options); });
}

}  // namespace heed::cli
