// heed generate: a language model goes on with a text.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/text_stream.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

struct GenerateArguments {
  std::string prompt, model;
  bool trust = false, no_prompt = false;
  std::vector<std::string> stop;
  int64_t samples = 1;
  GenerateOptions options;
};

std::string read_prompt() {
  std::string prompt(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad()) throw IoError("reading standard input failed");
  if (prompt.ends_with('\n')) prompt.pop_back();  // that of echo
  return prompt;
}

// A file takes the text in large parts; who watches wants each piece at once.
bool watched() {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && !S_ISREG(status.st_mode);
}

// Ids of a text to go on with: not empty.
std::vector<int32_t> encode_prompt(const Vocabulary& vocabulary, const std::string& prompt) {
  std::vector<int32_t> ids = vocabulary.encode(prompt);
  const auto unknown = std::count(ids.begin(), ids.end(), vocabulary.unk_id());
  if (unknown > 0)
    warn("generate", std::to_string(unknown) + " characters of the prompt are unknown to the model's vocabulary");
  // A text begins as if a line had just ended; nothing precedes it.
  if (ids.empty()) ids = vocabulary.encode("\n");
  if (ids.empty()) ids = {vocabulary.unk_id()};
  return ids;
}

void generate(GenerateArguments& a, bool prompt_given) {
  for (const std::string& stop : a.stop)
    if (stop.empty()) throw ShapeError("--stop is empty; give the text that ends the output");
  validate(a.options);
  const char* named = std::getenv("HEED_MODEL");
  if (a.model.empty() && named) a.model = named;
  if (a.model.empty())
    throw ShapeError("--model is missing: the directory of a language model, as heed train --text makes it");
  const auto [model, vocabulary] = load_checkpoint<LanguageModel>(a.model, a.trust);
  int64_t replaced = 0;
  const std::string prompt = sanitize_utf8(prompt_given ? a.prompt : read_prompt(), &replaced);
  if (replaced > 0)
    warn("generate", "replaced malformed UTF-8 by U+FFFD in " + std::to_string(replaced) + " places of the prompt");
  const std::vector<int32_t> ids = encode_prompt(vocabulary, prompt);

  GenerateOptions options = a.options;
  for (const int32_t id : {vocabulary.pad_id(), vocabulary.unk_id(), vocabulary.bos_id()})
    if (id >= 0) options.never.push_back(id);
  if (vocabulary.eos_id() >= 0) options.stop.push_back(vocabulary.eos_id());
  const bool flush = watched();
  for (int64_t sample = 0; sample < a.samples; ++sample) {
    if (sample > 0) std::cout << "---\n";
    char last = '\n';  // of the text so far
    TextStream stream(a.stop);
    const auto print = [&](const std::string& text) {
      if (text.empty()) return;
      std::cout << text;
      last = text.back();
      if (flush) finish_output();
    };
    if (!a.no_prompt) print(prompt);
    options.sample = static_cast<uint64_t>(sample);
    const Vocabulary& pieces = vocabulary;  // a structured binding cannot be captured
    options.on_token = [&](int32_t id) {
      print(stream.push(pieces.bytes(id)));
      if (!std::cout) finish_output();
      return !stream.stopped();
    };
    model->generate(ids, options);
    print(stream.finish());
    if (last != '\n') std::cout << '\n';
    finish_output();
  }
}

}  // namespace

void add_generate(CLI::App& program) {
  const auto a = std::make_shared<GenerateArguments>();
  CLI::App* command = program.add_subcommand("generate", "Let a language model go on with a text");
  command->description(
      "Prints the prompt and what the model makes follow it, as it comes. Without a prompt it is read from standard\n"
      "input; one newline at its end is not part of it. The same seed gives the same text.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* prompt = command->add_option("prompt", a->prompt, "The text to go on with")->default_str("");
  command->add_option("--model", a->model, "Directory of the model (default: HEED_MODEL)")->type_name("DIR");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make");
  GenerateOptions& o = a->options;
  command->add_option("--max-tokens", o.max_tokens, "Longest continuation in tokens")->check(CLI::Range(0, 1 << 30));
  command->add_option("--temperature", o.temperature, "Scores are divided by it; 0: always the most probable token");
  command->add_option("--top-k", o.top_k, "Draw among so many of the most probable tokens; 0: all");
  command->add_option("--top-p", o.top_p, "Draw among the fewest tokens that reach this probability together");
  command->add_option("--seed", o.seed, "Seed of the draws")->check(whole_number());
  command->add_option("--samples", a->samples, "Texts, with a line of --- between them")->check(CLI::Range(1, 1 << 20));
  command->add_option("--stop", a->stop, "End before this text (may be given several times)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->default_str("")
      ->expected(1)
      ->allow_extra_args(false);
  command->add_flag("--no-prompt", a->no_prompt, "Print only what follows the prompt");
  command->footer("Example:\n  heed generate --model my-writer --temperature 0.8 --top-k 50 \"Once upon a time\"");
  command->callback([a, prompt] { generate(*a, prompt->count() > 0); });
}

}  // namespace heed::cli
