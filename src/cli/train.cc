// heed train: a translator from sentence pairs, or a language model from a text.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/over_ranks.h"
#include "cli/train_display.h"
#include "cli/training_flags.h"
#include "heed/recipe.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

// The first signal lets the update finish; a second one ends the process as ever.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { caught_signal = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that goes away sends it, and so does its shell: the second one must not end what the first one asked
  // for. nohup ignores it, which stays so.
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  action.sa_flags = 0;
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

std::string command_of(const NextUse& next) {
  const std::string model = " --model " + shell_word(next.model), example = " " + shell_word(next.example);
  switch (next.use) {
    case NextUse::Use::translate: {
      std::string options = model;
      for (const auto& [option, value] : {std::pair(" --prefix ", &next.prefix),
                                          {" --from ", &next.source_language},
                                          {" --to ", &next.target_language}})
        if (!value->empty()) options += option + shell_word(*value);
      return "heed translate" + options + example;
    }
    case NextUse::Use::generate:
      return "heed generate" + model + example;
    case NextUse::Use::classify_texts:
      return "echo" + example + " | heed classify" + model + " -";
    case NextUse::Use::classify_images:
      return "heed classify" + model + example;
  }
  return "";
}

// On standard error, until a signal comes.
class Terminal final : public TrainingObserver {
 public:
  void complete(const TrainingRequest& request) override {
    use_threads(static_cast<int>(request.threads.value_or(0)));
    if (reads_standard_input(request)) say_that_it_waits(STDIN_FILENO);
  }
  void say(const std::string& text) override { warn("train", text); }
  void begin(const TrainWords& words) override {
    display_ = std::make_unique<TrainDisplay>(words);
    catch_signals();
  }
  void line(const std::string& text) override { display_->line(text); }
  void step(const TrainStep& step) override { display_->step(step); }
  void progress(const TrainProgress& progress) override { display_->progress(progress); }
  void validation(const Validation& validation) override { display_->validation(validation); }
  void next(const NextUse& next) override { display_->line("try it: " + command_of(next)); }
  bool stop() override { return caught_signal != 0; }

 private:
  std::unique_ptr<TrainDisplay> display_;
};

// For ranks above 0, which print nothing and let rank 0 decide.
class Silent final : public TrainingObserver {
 public:
  void complete(const TrainingRequest& request) override { use_threads(static_cast<int>(request.threads.value_or(0))); }
  void begin(const TrainWords&) override { catch_signals(); }
};

struct TrainArguments {
  TrainingRequest request{.spelling = training_flag};
  bool dump_config = false;
};

void train(TrainArguments& a) {
  if (a.dump_config) {
    std::cout << describe_options(a.request);
    return;
  }
  TrainResult result;
  over_ranks(a.request.rank_timeout.value_or(600), [&](Communicator* ranks) {
    a.request.ranks = ranks;
    Terminal terminal;
    Silent silent;
    const bool leads = !ranks || ranks->rank() == 0;
    result = heed::train(a.request, leads ? static_cast<TrainingObserver*>(&terminal) : &silent);
  });
  if (result.reason == StopReason::interrupted) throw ExitStatus{128 + caught_signal};
}

}  // namespace

void add_train(CLI::App& program) {
  const auto a = std::make_shared<TrainArguments>();
  CLI::App* command =
      program.add_subcommand("train", "Train a translator on sentence pairs, or a language model on a text");
  command->description(
      "Train a translator on sentence pairs, or a language model on a text\n\n"
      "--pairs names files of sentence pairs, --text a text. Everything is kept in the --model directory. After an\n"
      "interruption the same command resumes the training, and ends with the same weights unless --max-minutes\n"
      "guides the learning rate. Options you omit ([chosen]) are chosen from the data size and --max-minutes, and\n"
      "printed first.");
  command->add_flag("--dump-config", a->dump_config, "Print all options as TOML and exit");
  add_training_flags(*command, a->request);
  set_usage(*command, {"--pairs FILE ... --model DIR [OPTIONS]", "--text FILE ... --model DIR [OPTIONS]",
                       "--init DIR --labelled FILE ... --model DIR [OPTIONS]", "--resume DIR [OPTIONS]"});
  set_main_options(*command, {"--pairs",          "--columns",        "--text",        "--valid-pairs", "--valid-text",
                              "--valid-fraction", "--skip-bad-lines", "--model",       "--resume",      "--init",
                              "--preset",         "--config",         "--max-minutes", "--max-epochs",  "--max-updates",
                              "--learning-rate",  "--html",           "--threads",     "--quiet",       "--help-all"});
  command->footer(
      "Examples (spa-eng's columns are English and Spanish; this learns Spanish to English):\n"
      "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model --max-minutes 60\n"
      "  heed train --text book.txt --model my-writer");
  command->callback([a] { train(*a); });
}

}  // namespace heed::cli
