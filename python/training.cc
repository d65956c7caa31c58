// Training for Python: heed/_training.py has the signatures and the documentation. What is chosen where nobody does,
// the directory and its resuming are those of heed train.
#include "cli/training.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags.h"
#include "define.h"
#include "heed/random.h"
#include "interrupt.h"
#include "values.h"

namespace heed::python {
namespace {

using H = nb::handle;
using Tuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

/// Ends a training that has not begun; Interrupt knows the reason.
struct Ended {};

/// Calls Python's functions, which may be None.
class Watcher final : public cli::TrainWatcher {
 public:
  Watcher(H on_progress, H on_message) : on_progress_(on_progress), on_message_(on_message) {}

  void say(const std::string& text) override {
    line(text);
    if (interrupt_.pending()) throw Ended();
  }
  void begin(const cli::TrainWords&) override {
    if (interrupt_.pending()) throw Ended();
  }
  void line(const std::string& text) override {
    if (!on_message_.is_none()) interrupt_.call([&] { on_message_(text); });
  }
  void step(const TrainStep&) override {}
  void progress(const TrainProgress& p) override {
    progress_ = p;
    report(p.epoch, p.update, nullptr);
  }
  void validation(const Validation& v) override { report(v.epoch, v.update, &v); }
  void next(const std::string&) override {}  // of the program
  bool stop() override { return interrupt_.pending(); }

  /// With the GIL: what a signal or one of the functions has raised.
  void raise() const { interrupt_.raise(); }

 private:
  void report(int64_t epoch, int64_t update, const Validation* v) {
    if (on_progress_.is_none()) return;
    interrupt_.call([&] {
      const TrainProgress& p = progress_;
      nb::object validation = nb::none();
      if (v) validation = nb::make_tuple(v->nll, v->average_nll, v->bleu, v->average_bleu, v->better);
      on_progress_(epoch, update, p.nll, p.learning_rate, p.words_per_second, p.gradient_norm, p.minutes,
                   p.minutes_left, validation);
    });
  }

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  const H on_progress_, on_message_;
  Interrupt interrupt_;
  TrainProgress progress_{.nll = kUnknown,  // before the first report
                          .gradient_norm = kUnknown,
                          .learning_rate = kUnknown,
                          .words_per_second = kUnknown,
                          .minutes = kUnknown};
};

/// Options of the program, and what Python calls them where that is not the same.
constexpr std::pair<const char*, const char*> kCalledOtherwise[] = {
    {"model", "out"}, {"from", "source_language"}, {"to", "target_language"}};

/// A message as the program would say it, with Python's names for the options.
std::string as_called(const std::string& message, const CLI::App& command) {
  const std::string typed = cli::with_flags(message, command);
  std::string text = "train: ";
  size_t copied = 0;
  for (size_t at = 0; (at = typed.find("--", at)) != typed.npos;) {
    const size_t begin = at + 2,
                 end = std::min(typed.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", begin), typed.size());
    if (begin == end || typed[begin] < 'a') {
      ++at;
      continue;
    }
    std::string name = typed.substr(begin, end - begin);
    std::replace(name.begin(), name.end(), '-', '_');
    for (const auto& [option, called] : kCalledOtherwise)
      if (name == option) name = called;
    text.append(typed, copied, at - copied).append(name);
    copied = at = end;
  }
  return text.append(typed, copied);
}

std::optional<TextPairs> pairs_of(const char* what, H sides) {
  if (sides.is_none()) return {};
  const std::string of_source = std::string(what) + ": sources", of_target = std::string(what) + ": targets";
  return TextPairs{texts(of_source.c_str(), sides[0]), texts(of_target.c_str(), sides[1]), 0};
}

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::max_updates:
      return "max_updates";
    case StopReason::max_epochs:
      return "max_epochs";
    case StopReason::max_minutes:
      return "max_minutes";
    case StopReason::patience:
      return "patience";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

/// Parses the options, and trains.
TrainResult trained(CLI::App& command, cli::TrainArguments& a, std::vector<std::string> options, Watcher& watcher) {
  std::reverse(options.begin(), options.end());  // CLI11 takes them from the end
  try {
    command.parse(std::move(options));
    cli::apply_config(command, a);
    cli::check_training(a);
    return cli::run_training(command, a, watcher);
  } catch (const CLI::ParseError& e) {
    throw UsageError(as_called(e.what(), command));
  } catch (const UsageError& e) {
    throw UsageError(as_called(e.what(), command));
  } catch (const ShapeError& e) {
    throw ShapeError(as_called(e.what(), command));
  } catch (const TrainingDiffers& e) {
    throw FormatError(as_called(e.what(), command));
  } catch (const BadLineError& e) {
    throw FormatError(as_called(std::string(e.what()) + "; --skip-bad-lines=True leaves such lines out", command));
  } catch (const IoError& e) {
    const std::string message = cli::with_option(e.what(), command);
    if (message == e.what()) throw;
    throw IoError(as_called(message, command));
  }
}

/// `options` as the program takes them, "--max-updates=100"; the pairs None, or sources and targets.
Tuple run_training(const std::vector<std::string>& options, H pairs, H valid, H on_progress, H on_message) {
  cli::TrainArguments a;
  CLI::App command;
  command.set_help_flag();
  cli::add_train_options(command, a);
  a.pairs_in_memory = pairs_of("train: pairs", pairs);
  a.valid_pairs_in_memory = pairs_of("train: valid", valid);
  Watcher watcher(on_progress, on_message);
  TrainResult result;
  const Generator before = default_generator();  // what the caller draws later does not depend on this training
  try {
    const nb::gil_scoped_release others_may_run;
    result = trained(command, a, options, watcher);
  } catch (const Ended&) {
  } catch (...) {
    default_generator() = before;
    throw;
  }
  default_generator() = before;
  watcher.raise();
  return nb::make_tuple(name_of(result.reason), result.nothing_done, result.epoch, result.update, result.minutes,
                        result.best_nll, result.best_bleu, result.best_update, result.average_is_best);
}

/// (name, help) of each.
std::vector<std::pair<std::string, std::string>> train_options() {
  cli::TrainArguments a;
  CLI::App command;
  command.set_help_flag();
  cli::add_train_options(command, a);
  std::vector<std::pair<std::string, std::string>> all;
  for (const CLI::Option* option : command.get_options())
    all.emplace_back(option->get_lnames().front(), option->get_description());
  return all;
}

}  // namespace

void define_training(nb::module_& m) {
  m.def("train", &run_training, nb::arg("options"), nb::arg("pairs").none(), nb::arg("valid").none(),
        nb::arg("on_progress").none(), nb::arg("on_message").none());
  m.def("train_options", &train_options);
}

}  // namespace heed::python
