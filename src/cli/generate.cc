// heed generate: a language model goes on with a text.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/line_reader.h"
#include "cli/load_options.h"
#include "cli/paths.h"
#include "cli/rule_options.h"
#include "cli/text_or_file.h"
#include "heed/chat.h"
#include "heed/text.h"
#include "heed/text_generator.h"

namespace heed::cli {
namespace {

struct GenerateArguments {
  std::vector<std::string> prompts;
  std::string model, input, output, chat_template, system;
  LoadOptions load{};
  bool no_prompt = false, score = false, json = false, interactive = false;
  std::vector<std::string> stop;
  int64_t samples = 1, batch = 8;
  GenerateOptions options;
};

std::string read_text(const std::string& path, int64_t* replaced) {
  const bool standard = is_standard_stream(path);
  if (standard) say_that_it_waits(STDIN_FILENO);
  const std::string text = standard ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
  if (standard && std::cin.bad()) throw IoError("reading standard input failed");
  Utf8Check check(standard ? "standard input" : path);
  std::string taken = check.take(text);
  check.expect_utf8();
  *replaced += check.replaced();
  return taken;
}

std::string read_prompt(const std::string& path, int64_t* replaced) {
  std::string prompt = read_text(path, replaced);
  if (prompt.ends_with('\n')) prompt.pop_back();  // that of echo
  return prompt;
}

// How probable the model finds a text. The first token is not predicted, nor are its bytes counted.
void score(const TextGenerator& generator, const std::string& text, bool json, FileWriter& out) {
  const TextScore found = generator.score(text);
  const auto tokens = static_cast<double>(found.tokens), size = static_cast<double>(found.bytes);
  const double nats = found.nats;
  const double bits = nats / std::numbers::ln2;
  const nlohmann::ordered_json figures = {{"tokens", found.tokens},
                                          {"bytes", found.bytes},
                                          {"nats_per_token", nats / tokens},
                                          {"bits_per_token", bits / tokens},
                                          {"nats_per_byte", nats / size},
                                          {"bits_per_byte", bits / size},
                                          {"perplexity", std::exp(nats / tokens)}};  // of a token
  if (json) {
    out.write(figures.dump() + '\n');
  } else {
    for (const auto& [name, value] : figures.items()) {
      std::array<char, 64> line;
      std::snprintf(line.data(), line.size(), value.is_number_float() ? "%-14s  %.4f\n" : "%-14s  %.0f\n", name.c_str(),
                    value.get<double>());
      out.write(std::string_view(line.data()));
    }
  }
}

// The prompt and what the model makes follow it, as it comes; nothing where the model refuses to write.
void write_one(const GenerateArguments& a, const TextGenerator& generator, const std::string& prompt, FileWriter& out) {
  char last = '\n';  // of the text so far
  std::string before = a.no_prompt ? "" : prompt;
  const auto print = [&](const std::string& text) {
    const std::string both = std::exchange(before, "") + text;
    if (both.empty()) return;
    out.write(both);
    last = both.back();
  };
  generator.continue_text(prompt, {.tokens = a.options, .stop = a.stop, .on_text = print});
  print("");
  if (last != '\n') out.write("\n");
}

// All texts of all prompts, several at once.
void write_samples(const GenerateArguments& a, const TextGenerator& generator, const std::vector<std::string>& prompts,
                   FileWriter& out) {
  std::vector<std::string> all;
  for (const std::string& prompt : prompts) all.insert(all.end(), static_cast<size_t>(a.samples), prompt);
  if (all.size() == 1) return write_one(a, generator, all[0], out);
  const std::vector<std::string> texts = generator.continue_texts(all, {.tokens = a.options, .stop = a.stop}, a.batch);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.write("---\n");
    std::string text = a.no_prompt ? texts[i] : all[i] + texts[i];
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    out.write(text);
  }
}

ChatTemplate chosen_template(const GenerateArguments& a) {
  return a.chat_template == "auto" ? chat_template_of(a.model, a.load.base) : ChatTemplate(a.chat_template);
}

// Each line is answered as it comes.
void talk(const GenerateArguments& a, const TextGenerator& generator) {
  ContinueOptions options{
      .tokens = a.options, .stop = a.stop, .on_text = [](const std::string& text) { std::cout << text << std::flush; }};
  Chat chat(generator.stored(), chosen_template(a), a.system, options);
  LineReader lines(STDIN_FILENO, "standard input");
  for (;;) {
    ask("> ");
    const std::vector<std::string> line = lines.read(1);
    if (line.empty()) break;
    if (is_blank(line[0])) continue;
    const std::string answer = chat.answer(line[0]);
    if (!answer.ends_with('\n')) std::cout << '\n';
    finish_output();
  }
  if (lines.replaced() > 0) warn("generate", replaced_in_words(lines.replaced()));
}

// One answer, or several.
void write_answers(const GenerateArguments& a, const TextGenerator& generator, const std::vector<std::string>& said,
                   FileWriter& out) {
  for (int64_t i = 0; i < std::ssize(said) * a.samples; ++i) {
    if (i > 0) out.write("---\n");
    ContinueOptions options{
        .tokens = a.options, .stop = a.stop, .on_text = [&](const std::string& text) { out.write(text); }};
    options.tokens.sample = static_cast<uint64_t>(i);
    Chat chat(generator.stored(), chosen_template(a), a.system, options);
    if (!chat.answer(said[static_cast<size_t>(i / a.samples)]).ends_with('\n')) out.write("\n");
  }
}

void check_samples(const GenerateArguments& a, const StoredModel& model) {
  if (a.score || a.samples == 1) return;
  const Sampling sampling = model.completed(a.options).sampling;
  if (!always_greedy(sampling)) return;
  const std::string begin = "--samples " + std::to_string(a.samples) + " would be the same text several times: ";
  const char* const end = " the most probable token is always taken; ";
  if (sampling.top_k == 1) throw UsageError(begin + "with --top-k 1" + end + "give a higher --top-k");
  if (a.options.sampling.temperature) throw UsageError(begin + "with --temperature 0" + end + "give a higher one");
  throw UsageError(begin + "by the model's generation_config.json" + end + "give --temperature, too");
}

void warn_of_files(const GenerateArguments& a) {
  for (const std::string& prompt : a.prompts)
    if (std::error_code error; std::filesystem::is_regular_file(prompt, error))
      return warn_of_file_name("generate", prompt, "-i " + shell_word(prompt));
  warn_of_file_name("generate", a.system, "--system " + content_as_argument(a.system));
}

void generate(GenerateArguments& a, bool prompt_given) {
  for (const std::string& stop : a.stop)
    if (stop.empty()) throw UsageError("--stop is empty; give the text that ends the output");
  validate(a.options);
  if (prompt_given && !a.input.empty()) throw UsageError("a prompt and --input are given; give one of them");
  if (a.model.empty()) a.model = model_of_environment();
  if (a.model.empty())
    throw UsageError("--model is missing: the directory of a language model, as heed train --text makes it");
  if (a.interactive && (prompt_given || !a.input.empty() || !a.output.empty() || a.score || a.samples > 1))
    throw UsageError(
        "--interactive reads what is said and prints what is answered; leave out the prompt, --input, "
        "--output, --samples and --score");
  if (a.interactive && a.chat_template.empty()) a.chat_template = "auto";
  if (!a.system.empty() && a.chat_template.empty())
    throw UsageError("--system is told in a conversation; add --chat-template auto, or --interactive");
  if (a.score && a.prompts.size() > 1) throw UsageError("--score takes one text; give it by itself");
  if (a.score && !a.chat_template.empty()) throw UsageError("--score takes a text as it is; leave out --chat-template");
  std::vector<std::string> inputs = model_paths(a.model, a.load.base);
  inputs.push_back(a.input.empty() && !prompt_given ? "-" : a.input);
  expect_other_output(a.output, inputs);
  expect_no_text("generate", a.input, GivesText::argument);
  const TextGenerator generator(a.model, a.load);
  check_samples(a, generator.stored());
  warn_of_files(a);
  if (a.interactive) return talk(a, generator);
  std::vector<std::string> prompts = a.prompts;
  int64_t replaced = 0, unknown = 0;
  if (!prompt_given) prompts = {a.score ? read_text(a.input, &replaced) : read_prompt(a.input, &replaced)};
  const char* const what = a.score ? "text" : "prompt";
  for (std::string& prompt : prompts) {
    if (prompt_given) prompt = sanitize_utf8(prompt, &replaced);
    unknown += generator.unknown_in(prompt);
  }
  if (replaced > 0) warn("generate", replaced_in_words(replaced, what));
  if (unknown > 0)
    warn("generate", std::to_string(unknown) + " characters of the " + what + " are unknown to the model's vocabulary");
  write_output(a.output, [&](FileWriter& out) {
    if (a.score)
      score(generator, prompts.at(0), a.json, out);
    else if (!a.chat_template.empty())
      write_answers(a, generator, prompts, out);
    else
      write_samples(a, generator, prompts, out);
  });
}

}  // namespace

void add_generate(CLI::App& program) {
  const auto a = std::make_shared<GenerateArguments>();
  CLI::App* command = program.add_subcommand("generate", "Let a language model go on with a text");
  command->description(
      "Let a language model go on with a text\n\n"
      "Prints the prompt and what the model makes follow it, as it comes. Without a prompt it is read from a file or\n"
      "from standard input; one newline at its end is not part of it. The same seed gives the same text. Defaults in\n"
      "brackets are those of heed's own models and of GGUF files; other models write as their generation_config.json\n"
      "says, without one the most probable tokens.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* prompt =
      command->add_option("prompt", a->prompts, "The text to go on with, or several, with a line of --- between them")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_name("TEXT")
          ->default_str("");
  command->add_option("-i,--input", a->input, "Read the prompt from this file; - for standard input [-]")
      ->type_name("FILE");
  command
      ->add_option("-o,--output", a->output,
                   "Write to this file, which is there when all is written; - for standard output [-]")
      ->type_name("FILE");
  command->add_option("-m,--model", a->model, "Directory of the model [HEED_MODEL]")->type_name("DIR");
  add_load_options(*command, a->load);
  GenerateOptions& o = a->options;
  command->add_option("--max-tokens", o.max_tokens, "Longest continuation in tokens [256]")
      ->check(CLI::Range(0, 1 << 30))
      ->default_str("");
  const auto number = [&](const char* name, std::optional<double>& value, const char* what) {
    command->add_option(name, value, what)->check(finite_number())->default_str("");
  };
  number("--temperature", o.sampling.temperature, "Scores are divided by it; 0: always the most probable token [0.8]");
  command->add_option("--top-k", o.sampling.top_k, "Draw among so many of the most probable tokens; 0: all [40]")
      ->default_str("");
  number("--top-p", o.sampling.top_p, "Draw among the fewest tokens that reach this probability together [0.95]");
  number("--min-p", o.sampling.min_p,
         "Draw among those with this share of the most probable token's probability; 0: all [0]");
  add_rules(*command, o.rules, "--min-tokens", "Shortest continuation in tokens [0]");
  command->add_option("-s,--seed", o.sampling.seed, "Seed of the draws [0]")->check(whole_number())->default_str("");
  command->add_option("--samples", a->samples, "Texts of each prompt, with a line of --- between them")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--batch", a->batch, "Texts written at once, where there are several")
      ->check(CLI::Range(1, 1 << 16));
  command->add_option("--stop", a->stop, "End before this text; several times for several texts")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->default_str("")
      ->expected(1)
      ->allow_extra_args(false);
  std::vector<std::string> templates = chat_templates();
  templates.insert(templates.begin(), "auto");
  command
      ->add_option("--chat-template", a->chat_template,
                   "Put the prompt to the model as what a user says, and print its answer: the way of writing that it "
                   "was taught, auto for what its directory says, plain for a dialogue as texts have it: " +
                       CLI::detail::join(templates, ", "))
      ->transform(one_of(templates))
      ->type_name("NAME")
      ->default_str("");
  command->add_option("--system", a->system, "What the model is told before the conversation")
      ->type_name("TEXT")
      ->default_str("");
  command->add_flag("--interactive", a->interactive,
                    "Talk: answer each line of standard input, with all that was said");
  command->add_flag("--no-prompt", a->no_prompt, "Print only what follows the prompt");
  CLI::Option* score = command->add_flag("--score", a->score, "Write nothing: print how probable the text is");
  command->add_flag("--json", a->json, "Print the score as JSON, with all digits")->needs(score);
  // Nothing is written.
  for (const char* const name :
       {"--max-tokens", "--min-tokens", "--temperature", "--top-k", "--top-p", "--min-p", "--repetition-penalty",
        "--no-repeat-ngram", "--seed", "--samples", "--stop", "--no-prompt"})
    score->excludes(command->get_option(name));
  set_usage(*command, {"--model DIR [OPTIONS] [PROMPT]..."});
  command->footer(
      "Examples:\n  heed generate --model my-writer --temperature 0.8 --top-k 50 \"Once upon a time\"\n"
      "  heed generate --model my-writer --score < book.txt\n"
      "  heed generate --model my-writer --interactive --temperature 0.7");
  command->callback([a, prompt] { generate(*a, prompt->count() > 0); });
}

}  // namespace heed::cli
