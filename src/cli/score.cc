// heed score: BLEU and chrF of a translation.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/paths.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

struct ScoreOptions {
  std::vector<std::string> references;
  std::string input, output;
  bool confidence = false, json = false;
  int64_t resamples = 1000;
  MetricOptions metric;
};

std::string as_text(const BleuScore& bleu, const ChrfScore& chrf) {
  return bleu.format() + '\n' + chrf.format() + "\nBLEU signature: " + bleu.signature() +
         "\nchrF2 signature: " + chrf.signature() + '\n';
}

std::string as_json(const BleuScore& bleu, const ChrfScore& chrf, size_t lines) {
  nlohmann::ordered_json out = {{"lines", lines},
                                {"BLEU",
                                 {{"score", bleu.score},
                                  {"precisions", bleu.precisions},
                                  {"brevity_penalty", bleu.brevity_penalty},
                                  {"ratio", bleu.ratio()},
                                  {"hyp_len", bleu.hypothesis_length},
                                  {"ref_len", bleu.reference_length},
                                  {"signature", bleu.signature()}}},
                                {"chrF2", {{"score", chrf.score}, {"signature", chrf.signature()}}}};
  for (const auto& [name, confidence] : {std::pair("BLEU", bleu.confidence), {"chrF2", chrf.confidence}})
    if (confidence.resamples > 0)
      out[name]["confidence"] = {{"mean", confidence.mean},
                                 {"half_width", confidence.half_width},
                                 {"resamples", confidence.resamples},
                                 {"seed", confidence.seed}};
  return out.dump(2) + '\n';
}

void score(const CLI::App& command, ScoreOptions& options) {
  if (!options.confidence && !command.get_option("--seed")->empty())
    warn("score", "--seed has no effect without --confidence");
  if (options.confidence) options.metric.resamples = options.resamples;
  std::vector<std::string> inputs = options.references;
  inputs.push_back(options.input.empty() ? "-" : options.input);
  expect_other_output(options.output, inputs);
  int64_t replaced = 0;
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : options.references) references.push_back(read_lines(path, &replaced));
  const bool from_file = !is_standard_stream(options.input);
  if (!from_file) say_that_it_waits(STDIN_FILENO);
  const std::string input = from_file ? options.input : "standard input";
  const std::vector<std::string> hypotheses =
      from_file ? read_lines(options.input, &replaced) : read_lines(std::cin, input, &replaced);
  for (size_t r = 0; r < references.size(); ++r)
    if (hypotheses.size() != references[r].size())
      throw FormatError(options.references[r] + " has " + std::to_string(references[r].size()) + " lines but " + input +
                        " has " + std::to_string(hypotheses.size()) +
                        "; each line of one must belong to a line of the other");
  if (hypotheses.empty()) throw FormatError(options.references[0] + " and " + input + " have no lines");
  if (replaced > 0) warn("score", replaced_in_words(replaced));
  const BleuScore b = bleu(hypotheses, references, options.metric);
  const ChrfScore c = chrf(hypotheses, references, options.metric);
  const std::string text = options.json ? as_json(b, c, hypotheses.size()) : as_text(b, c);
  write_output(options.output, [&](FileWriter& out) { out.write(text); });
}

}  // namespace

void add_score(CLI::App& program) {
  const auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = program.add_subcommand("score", "Score translations by BLEU and chrF");
  command->description(
      "Score translations by BLEU and chrF\n\n"
      "Scores translations, one per line, against files of references. BLEU and chrF2 are sacreBLEU's: 13a tokens, "
      "exponential smoothing. With --confidence a score is followed by its mean over resampled corpora and the half "
      "width of the interval that holds 95 % of them: the digits of sacreBLEU's --confidence.");
  command->add_option("-i,--input", options->input, "The translations; - for standard input [-]")->type_name("FILE");
  command
      ->add_option("-o,--output", options->output,
                   "Write to this file, which is there when all is written; - for standard output [-]")
      ->type_name("FILE");
  command
      ->add_option("-r,--reference", options->references,
                   "The right translations; several times for several of each line")
      ->required()
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--lowercase", options->metric.lowercase, "Compare without regard to case");
  CLI::Option* confidence = command->add_flag("--confidence", options->confidence, "Add confidence intervals");
  command->add_option("--resamples", options->resamples, "Corpora drawn for --confidence")
      ->check(CLI::Range(1, 1000000))
      ->needs(confidence)
      ->capture_default_str();
  command->add_option("-s,--seed", options->metric.seed, "Seed of --confidence")
      ->check(whole_number())
      ->capture_default_str()
      ->group(kCommonGroup);
  command->add_flag("--json", options->json, "Print JSON with all digits");
  command->footer(
      "Examples:\n"
      "  heed translate --model eng-spa < dev.en | heed score --reference dev.es\n"
      "  heed score -i translated.es -r dev.es -r dev2.es --confidence");
  command->callback([command, options] { score(*command, *options); });
}

}  // namespace heed::cli
