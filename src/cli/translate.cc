// heed translate: a line in, a line out.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/line_reader.h"
#include "cli/load_options.h"
#include "cli/over_ranks.h"
#include "cli/paths.h"
#include "cli/rule_options.h"
#include "cli/text_or_file.h"
#include "heed/io.h"
#include "heed/text.h"
#include "heed/translator.h"

namespace heed::cli {
namespace {

constexpr const char* kStandardInput = "-";

struct TranslateArguments {
  std::vector<std::string> texts;
  std::vector<std::string> models;
  std::string input, output, force;
  LoadOptions load{};
  bool scores = false, token_scores = false, split = false, no_split = false, json = false, sample = false;
  Sampling sampling;
  TranslateOptions options;
  double rank_timeout = 600;
  bool leads() const { return !options.ranks || options.ranks->rank() == 0; }  // reads, writes and speaks
};

// "▁the:-0.1053 ▁dog:-0.3567 </s>:-0.0012": pieces have no spaces.
std::string with_scores(const std::vector<std::pair<std::string, float>>& tokens) {
  std::string out;
  for (const auto& [piece, log_probability] : tokens) {
    std::array<char, 32> score;
    std::snprintf(score.data(), score.size(), ":%.4f", static_cast<double>(log_probability));
    out += (out.empty() ? "" : " ") + piece + score.data();
  }
  return out;
}

// One object, one line.
std::string as_json(const TranslateArguments& a, const std::string& source, const TranslatedLine& line,
                    int64_t number) {
  return "{\"line\":" + std::to_string(number) + "," + to_json(source, line, a.options.beam.want_alignment).substr(1) +
         '\n';
}

std::string rendered(const TranslateArguments& a, const TranslatedLine& line, int64_t number) {
  const bool columns = a.options.beam.n_best > 1 || a.scores || a.token_scores || a.options.beam.want_alignment;
  std::string out;
  for (const Translation& t : line.best) {
    if (a.options.beam.n_best > 1) out += std::to_string(number) + '\t';
    const size_t begin = out.size();
    out += t.text;
    if (columns) std::replace(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), '\t', ' ');
    if (a.scores) {
      char score[32];
      std::snprintf(score, sizeof score, "\t%.4f", t.score);
      out += score;
    }
    if (a.token_scores) out += '\t' + with_scores(t.tokens);
    if (a.options.beam.want_alignment) {
      const char* space = "\t";
      for (const auto& [source, target] : t.alignment) {
        out += space + std::to_string(source) + '-' + std::to_string(target);
        space = " ";
      }
      if (t.alignment.empty()) out += '\t';
    }
    out += '\n';
  }
  return out;
}

// Where the lines come from, one part after the other: texts, a file, standard input.
class Input {
 public:
  explicit Input(const TranslateArguments& a) : texts_(a.texts) {
    if (!texts_.empty() && !a.input.empty()) throw UsageError("texts and --input are given; give one of them");
    if (texts_.empty()) texts_.push_back(kStandardInput);
    if (a.input.empty() || a.input == kStandardInput) return;
    expect_no_text("translate", a.input, GivesText::argument);
    file_ = ::open(a.input.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw IoError("read " + a.input + ": " + std::strerror(errno));
    reader_.emplace(file_, a.input);
  }
  ~Input() {
    if (file_ >= 0) ::close(file_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// What there is without waiting on, a line at least and `most` at the most; none at the end.
  std::vector<std::string> next(size_t most) {
    std::vector<std::string> lines;
    while (lines.empty() && (at_ < texts_.size() || reader_ || !given_.empty())) {
      if (!reader_ && given_.empty()) begin_next();
      const int64_t before = reader_ ? reader_->replaced() : 0;
      if (reader_) {
        lines = reader_->read(most);
        replaced_ += reader_->replaced() - before;
        if (lines.empty()) reader_.reset(), ++at_;
      } else {
        const auto last = given_.begin() + static_cast<std::ptrdiff_t>(std::min(most, given_.size()));
        lines.assign(std::move_iterator(given_.begin()), std::move_iterator(last));
        given_.erase(given_.begin(), last);
      }
    }
    return lines;
  }
  int64_t replaced() const { return replaced_; }

 private:
  // Standard input, or all texts before it.
  void begin_next() {
    if (texts_[at_] == kStandardInput) return void(reader_.emplace(STDIN_FILENO, "standard input"));
    for (; at_ < texts_.size() && texts_[at_] != kStandardInput; ++at_) {
      std::istringstream in(texts_[at_].empty() ? "\n" : texts_[at_]);
      for (std::string& line : read_lines(in, "the text", &replaced_)) given_.push_back(std::move(line));
    }
  }

  std::vector<std::string> texts_;
  size_t at_ = 0;
  int file_ = -1;
  std::optional<LineReader> reader_;
  std::deque<std::string> given_;  // lines of texts
  int64_t replaced_ = 0;
};

[[noreturn]] void throw_unequal(const std::string& file, size_t lines, const std::string& others) {
  throw FormatError(file + " has " + std::to_string(lines) + " lines but the input has " + others +
                    "; each translation belongs to a line");
}

// Lines, each with a translation that is given where translations are to be scored.
struct Window {
  std::vector<std::string> lines, given;
};

// Reads it, on rank 0.
class Windows {
 public:
  explicit Windows(const TranslateArguments& a) : a_(a) {
    if (!a.leads()) return;
    input_.emplace(a);
    if (!a.force.empty()) given_ = read_lines(a.force, &replaced_);
  }

  /// The next one, the same on all ranks; without lines at the end.
  Window next() {
    Window window;
    if (a_.leads()) {
      const int ranks = a_.options.ranks ? a_.options.ranks->size() : 1;
      window.lines = input_->next(static_cast<size_t>(kLinesTogether * ranks));
      if (!a_.force.empty()) window.given = given_of(window.lines.size());
    }
    if (!a_.options.ranks) return window;
    return {lines_of_lead(*a_.options.ranks, window.lines), lines_of_lead(*a_.options.ranks, window.given)};
  }
  int64_t replaced() const { return replaced_ + (input_ ? input_->replaced() : 0); }

 private:
  std::vector<std::string> given_of(size_t lines) {
    const size_t before = std::exchange(done_, done_ + lines);
    if (done_ > given_.size()) throw_unequal(a_.force, given_.size(), "more");
    if (lines == 0 && done_ < given_.size()) throw_unequal(a_.force, given_.size(), std::to_string(done_));
    const auto first = given_.begin() + static_cast<std::ptrdiff_t>(before);
    return {first, first + static_cast<std::ptrdiff_t>(lines)};
  }
  static std::vector<std::string> lines_of_lead(Communicator& ranks, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    text = text_of_lead(ranks, std::move(text));
    std::vector<std::string> all;
    for (size_t begin = 0; begin < text.size(); begin += all.back().size() + 1)
      all.push_back(text.substr(begin, text.find('\n', begin) - begin));
    return all;
  }

  const TranslateArguments& a_;
  std::optional<Input> input_;
  std::vector<std::string> given_;
  size_t done_ = 0;
  int64_t replaced_ = 0;
};

// Translates all there is, and hands the text of each window to `put`.
void translate_all(const TranslateArguments& a, const Translator& translator, Windows& windows,
                   const std::function<void(const std::string&)>& put) {
  TranslateOptions options = a.options;
  for (Window window; !(window = windows.next()).lines.empty(); options.first_line += std::ssize(window.lines)) {
    const std::vector<TranslatedLine> results = a.force.empty() ? translator.translate(window.lines, options)
                                                                : translator.score(window.lines, window.given, options);
    int64_t number = options.first_line;
    std::string out;
    for (size_t i = 0; i < results.size(); ++i)
      out += a.json ? as_json(a, window.lines[i], results[i], ++number) : rendered(a, results[i], ++number);
    put(out);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].cut)
        warn("translate", "line " + std::to_string(options.first_line + static_cast<int64_t>(i) + 1) +
                              " is longer than the model takes and was cut to " +
                              std::to_string(translator.max_source_tokens()) + " tokens");
  }
}

// What decides the translations.
void require_same(const CLI::App& command, const TranslateArguments& a, const std::vector<std::string>& models) {
  std::string has;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* o) { return !o->empty(); }))
    if (option->get_group() != kCommonGroup)
      for (const std::string& value : option->results()) has += option->get_name() + ' ' + value + ' ';
  for (const std::string& model : models)
    for (const std::string& file : model_paths(model, a.load.base))
      if (std::filesystem::exists(file)) {
        const Checksum sum = checksum_of_file(file);
        has += std::filesystem::path(file).filename().string() + ' ' + std::to_string(sum.bytes) + ' ' +
               std::to_string(sum.crc32) + ' ';
      }
  a.options.ranks->require_same("translate", has, "what was asked for, with the model,",
                                "start all ranks with the same of both");
}

// The output must not take the place of what is read.
void check_files(const TranslateArguments& a, const std::vector<std::string>& models) {
  const bool piped = std::find(a.texts.begin(), a.texts.end(), kStandardInput) != a.texts.end();
  std::vector<std::string> inputs = {a.force, a.input.empty() && (a.texts.empty() || piped) ? kStandardInput : a.input};
  for (const std::string& model : models)
    for (std::string& file : model_paths(model, a.load.base)) inputs.push_back(std::move(file));
  expect_other_output(a.output, inputs);
}

// A name instead of a text is the likelier mistake.
void warn_of_files(const TranslateArguments& a) {
  for (const std::string& text : a.texts)
    if (std::error_code error; std::filesystem::is_regular_file(text, error))
      return warn_of_file_name("translate", text, "-i " + shell_word(text));
}

void translate(const CLI::App& command, TranslateArguments& a) {
  const std::vector<std::string> models = a.models.empty() ? std::vector{find_model("")} : a.models;
  check_files(a, models);
  if (a.options.ranks) require_same(command, a, models);
  Windows windows(a);
  const Translator translator(models, a.load);
  if (a.force.empty())
    a.options.beam = translator.stored().drawn_or_searched(std::move(a.options.beam),
                                                           a.sample ? std::optional(true) : std::nullopt, a.sampling);
  if (a.leads()) warn_of_files(a);
  if (!a.leads()) return translate_all(a, translator, windows, [](const std::string&) {});
  write_output(a.output, [&](FileWriter& file) {
    translate_all(a, translator, windows, [&](const std::string& text) { file.write(text); });
  });
  if (const int64_t replaced = windows.replaced(); replaced > 0) warn("translate", replaced_in_words(replaced));
}

void add_sampling_options(CLI::App& command, TranslateArguments& a, CLI::Option* force) {
  CLI::Option* sample = command.add_flag("--sample", a.sample, "Draw translations instead of searching")
                            ->excludes(force)
                            ->excludes(command.get_option("--beam"));
  const auto number = [&](const char* name, std::optional<double>& value, const char* what) {
    command.add_option(name, value, what)->check(finite_number())->needs(sample)->default_str("");
  };
  number("--temperature", a.sampling.temperature, "Scores are divided by it; 0: the most probable token [1]");
  command.add_option("--top-k", a.sampling.top_k, "Draw among so many of the most probable tokens; 0: all [0]")
      ->check(CLI::Range(0, 1 << 30))
      ->needs(sample)
      ->default_str("");
  number("--top-p", a.sampling.top_p, "Draw among the fewest tokens that reach this probability together [1]");
  number("--min-p", a.sampling.min_p,
         "Draw among those with this share of the most probable token's probability; 0: all [0]");
  command.add_option("-s,--seed", a.sampling.seed, "Seed of the draws [0]")
      ->check(whole_number())
      ->excludes(force)
      ->default_str("");
}

}  // namespace

void add_translate(CLI::App& program) {
  const auto a = std::make_shared<TranslateArguments>();
  CLI::App* command = program.add_subcommand("translate", "Translate texts, files or standard input, line by line");
  command->description(
      "Translate texts, files or standard input, line by line\n\n"
      "Translates each line to one line, in order: of texts given, of a file, or of standard input, whose lines are\n"
      "answered as they come. The sentences of a line are translated one by one; blank lines stay as they are.\n"
      "The bundled model translates Spanish to English. Defaults in brackets are those of heed's own models; a model\n"
      "from elsewhere is searched as its generation_config.json says.\n"
      "Further columns come behind tabs: the line's number in front with --n-best, then text, score, alignment.");
  command->option_defaults()->always_capture_default();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command->add_option("text", a->texts, "What to translate; - for standard input")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->default_str("");
  command->add_option("-i,--input", a->input, "Read lines from this file; - for standard input [-]")->type_name("FILE");
  command
      ->add_option("-o,--output", a->output,
                   "Write to this file, which is there when all is translated; - for standard output [-]")
      ->type_name("FILE");
  command
      ->add_option("-m,--model", a->models,
                   "Directory of the model; given several times, the models translate as one [HEED_MODEL, else the "
                   "bundled one]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name("DIR")
      ->default_str("");
  add_load_options(*command, a->load);
  BeamOptions& beam = a->options.beam;
  command->add_option("-b,--beam", beam.beam, "Hypotheses kept; 1 is greedy [5]")
      ->check(CLI::Range(1, 1000))
      ->default_str("");
  command
      ->add_option("--length-penalty", beam.length_penalty,
                   "Score is log p / length^penalty: more, longer translations [1.4]")
      ->check(finite_number())
      ->default_str("");
  command
      ->add_option("--max-length", beam.max_length, "Longest translation in tokens; 0 for twice the source and 10 [0]")
      ->check(CLI::Range(0, 1 << 24))
      ->default_str("");
  add_rules(*command, beam.rules, "--min-length",
            "Shortest translation in tokens; min_length of generation_config.json counts the start token, too [0]");
  command
      ->add_option(
          "-n,--n-best", beam.n_best,
          "At most so many translations a line, best first, each text once unless drawn; more than --beam widen it")
      ->check(CLI::Range(1, 1000));
  command->add_option("--batch", a->options.batch, "Sentences decoded together")->check(CLI::Range(1, 1 << 16));
  command->add_flag("--split", a->split, "Translate each sentence of a line by itself [except for BART and T5]");
  command->add_flag("--no-split", a->no_split, "Translate each line as one text [for BART and T5]")
      ->excludes(command->get_option("--split"));
  command->add_option("--prefix", a->options.prefix, "Put this before each sentence, as T5's tasks want it")
      ->type_name("TEXT")
      ->default_str("");
  command->add_option("--from", a->options.source_language, "Language of the text, for a model of many: eng_Latn, en")
      ->type_name("CODE")
      ->check(not_empty())
      ->default_str("");
  command->add_option("--to", a->options.target_language, "Language of the translation, likewise")
      ->type_name("CODE")
      ->check(not_empty())
      ->default_str("");
  command->add_flag("--scores", a->scores, "Add the score");
  command->add_flag("--token-scores", a->token_scores, "Add each piece with its log-probability");
  command->add_flag("--alignment", beam.want_alignment, "Add word alignments, source-target, from cross-attention");
  command->add_flag("--json", a->json, "Write each line as a JSON object with all of it");
  CLI::Option* force =
      command->add_option("--force", a->force, "Translate nothing: score these translations, a line for each line")
          ->type_name("FILE")
          ->excludes(command->get_option("--n-best"));
  // Nothing is searched, and lines are not split.
  for (const char* const name :
       {"--beam", "--max-length", "--min-length", "--repetition-penalty", "--no-repeat-ngram", "--split"})
    force->excludes(command->get_option(name));
  add_sampling_options(*command, *a, force);
  command->add_option("--rank-timeout", a->rank_timeout, "Seconds that a rank under mpirun waits for another one")
      ->check(finite_number());
  command->footer(
      "Examples:\n"
      "  heed translate \"Hola, mi nombre es Alex.\"\n"
      "  heed translate --scores < questions.es > questions.en");
  command->callback([command, a] {
    BeamOptions& search = a->options.beam;
    if (search.beam) search.beam = std::max(*search.beam, search.n_best);
    if (a->split || a->no_split) a->options.split = a->split;
    // Without a column there would be nothing to see.
    a->scores = a->scores || (!a->force.empty() && !a->token_scores);
    over_ranks(a->rank_timeout, [&](Communicator* ranks) {
      a->options.ranks = ranks;
      translate(*command, *a);
    });
  });
}

}  // namespace heed::cli
