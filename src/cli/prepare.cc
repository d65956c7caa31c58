// heed prepare: texts as tokens in one file, for a training whose data does not fit into memory.
#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/paths.h"
#include "cli/progress.h"
#include "cli/training_flags.h"
#include "heed/recipe.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

struct PrepareArguments {
  TrainingRequest request{.spelling = training_flag};
  std::string to;
};

class Terminal final : public PrepareObserver {
 public:
  explicit Terminal(const TrainingRequest& request) : request_(request) {}
  void begin() override {
    if (reads_standard_input(request_)) say_that_it_waits(STDIN_FILENO);
  }
  void say(const std::string& text) override { warn("prepare", text); }
  void progress(const std::string& text) override { text.empty() ? line_.clear() : line_.bar(-1, text); }

 private:
  const TrainingRequest& request_;
  ProgressLine line_;
};

void prepare(const PrepareArguments& a) {
  Terminal terminal(a.request);
  const TokenFileInfo made = prepare_tokens(a.request, a.to, &terminal);
  const Vocabulary vocabulary = Vocabulary::from_bytes(made.vocabulary, a.to, /*trust=*/true);
  note("wrote " + a.to + ": " +
       (made.text ? with_commas(made.target_tokens) + " tokens"
                  : with_commas(made.pairs) + " pairs, " + with_commas(made.source_tokens) + " source and " +
                        with_commas(made.target_tokens) + " target tokens") +
       ", " + with_commas(vocabulary.size()) + " pieces");
}

}  // namespace

void add_prepare(CLI::App& program) {
  const auto a = std::make_shared<PrepareArguments>();
  CLI::App* command =
      program.add_subcommand("prepare", "Turn texts into one file of tokens, for data larger than memory");
  command->description(
      "Turn texts into one file of tokens, for data larger than memory\n\n"
      "heed train takes the file in place of texts and reads it as it goes: its memory does not grow with the data.\n"
      "The vocabulary is learned as heed train learns it, from a sample of the lines if the text is long, and is part\n"
      "of the file.");
  for (const char* const field : {"pairs", "columns", "source", "target", "text", "exclude", "skip_bad_lines"})
    add_training_flag(*command, a->request, field)->group("OPTIONS");
  command->add_option("-o,--to,--output", a->to, "File to write")->required()->type_name("FILE");
  for (const char* const field : {"vocabulary", "separate_vocabularies", "source_vocabulary", "trust"})
    add_training_flag(*command, a->request, field)->group("OPTIONS");
  CLI::Option* const size = add_training_flag(*command, a->request, "vocab_size")->group("OPTIONS");
  size->description("Pieces to learn [chosen by the data]")->check(CLI::Range(1, 1 << 24));
  for (const char* const field : {"vocab_type", "character_coverage"})
    add_training_flag(*command, a->request, field)->group("OPTIONS");
  set_usage(*command,
            {"--pairs FILE ... --to FILE [OPTIONS]", "--source FILE ... --target FILE ... --to FILE [OPTIONS]",
             "--text FILE ... --to FILE [OPTIONS]"});
  command->footer(
      "Example:\n"
      "  heed prepare --pairs 'part-*.tsv' --to corpus.tokens\n"
      "  heed train --pairs corpus.tokens --valid-pairs dev.tsv --model my-model");
  command->callback([a] { prepare(*a); });
}

}  // namespace heed::cli
