// heed train: a translator from sentence pairs, or a language model from a text.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/over_ranks.h"
#include "cli/train_display.h"
#include "cli/training.h"

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

// On standard error, until a signal comes.
class Terminal final : public TrainWatcher {
 public:
  void say(const std::string& text) override { warn("train", text); }
  void begin(const TrainWords& words) override {
    display_ = std::make_unique<TrainDisplay>(words);
    catch_signals();
  }
  void line(const std::string& text) override { display_->line(text); }
  void step(const TrainStep& step) override { display_->step(step); }
  void progress(const TrainProgress& progress) override { display_->progress(progress); }
  void validation(const Validation& validation) override { display_->validation(validation); }
  void next(const std::string& command) override { display_->line("try it: " + command); }
  bool stop() override { return caught_signal != 0; }

 private:
  std::unique_ptr<TrainDisplay> display_;
};

// Of ranks above 0, which say nothing and let rank 0 decide.
class Silent final : public TrainWatcher {
 public:
  void say(const std::string&) override {}
  void begin(const TrainWords&) override { catch_signals(); }
  void line(const std::string&) override {}
  void step(const TrainStep&) override {}
  void progress(const TrainProgress&) override {}
  void validation(const Validation&) override {}
  void next(const std::string&) override {}
  bool stop() override { return false; }
};

TrainResult train_as_asked(CLI::App& command, TrainArguments& a) {
  apply_config(command, a);
  if (a.ranks) a.ranks->barrier();  // all have read what the directory says before rank 0 writes there
  check_training(a);
  use_threads(a.threads);
  if (a.leads()) {
    if (reads_standard_input(a)) say_that_it_waits(STDIN_FILENO);
    Terminal terminal;
    return run_training(command, a, terminal);
  }
  Silent silent;
  return run_training(command, a, silent);
}

void train(CLI::App& command, TrainArguments& a) {
  if (a.dump_config) {
    apply_config(command, a);
    std::cout << options_as_toml(command, TomlOf::all_described);
    return;
  }
  TrainResult result;
  over_ranks(a.rank_timeout, [&](Communicator* ranks) {
    a.ranks = ranks;
    result = train_as_asked(command, a);
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
      "Sentence pairs come by --pairs, a text by --text. Killed or interrupted, the same command goes on where it "
      "was,\n"
      "and where --max-minutes does not guide the learning rate, ends with the same weights. Everything is kept in "
      "the\n"
      "--model directory. What is not given of size, rate and batches ([chosen]) is chosen from the data and\n"
      "--max-minutes, and said in the first lines.");
  add_train_options(*command, *a);
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
  command->callback([command, a] { train(*command, *a); });
}

}  // namespace heed::cli
