// Training for Python: heed/_training.py has the signatures and the documentation, heed/recipe.h does the work.
#include "heed/recipe.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
class Watcher final : public TrainingObserver {
 public:
  Watcher(H on_progress, H on_message) : on_progress_(on_progress), on_message_(on_message) {}

  void say(const std::string& text) override {
    line(text);
    if (interrupt_.pending()) throw Ended();
  }
  void begin(const TrainWords&) override {
    if (interrupt_.pending()) throw Ended();
  }
  void line(const std::string& text) override {
    if (!on_message_.is_none()) interrupt_.call([&] { on_message_(text); });
  }
  void progress(const TrainProgress& p) override {
    progress_ = p;
    report(p.epoch, p.update, nullptr);
  }
  void validation(const Validation& v) override { report(v.epoch, v.update, &v); }
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

/// How messages call an option.
std::string keyword(const std::string& field) { return field == "model" ? "out" : field; }

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

using Options = std::vector<std::pair<std::string, std::vector<std::string>>>;  // field and values

TrainResult trained(TrainingRequest& request, const Options& options, Watcher& watcher) {
  const auto called = [](const std::string& message) { return "train: " + message; };
  try {
    for (const auto& [field, values] : options) {
      if (field == "config" || field == "resume")
        (field == "config" ? request.config : request.resume) = values.at(0);
      else
        set_option(request, field, values);
    }
    return train(request, &watcher);
  } catch (const UsageError& e) {
    throw UsageError(called(e.what()));
  } catch (const ShapeError& e) {
    throw ShapeError(called(e.what()));
  } catch (const TrainingDiffers& e) {
    throw FormatError(called(e.what()));
  } catch (const BadLineError& e) {
    throw FormatError(called(std::string(e.what()) + "; skip_bad_lines=True leaves such lines out"));
  } catch (const IoError& e) {
    const std::string message = with_option(e.what(), request);
    if (message == e.what()) throw;
    throw IoError(called(message));
  }
}

/// `options`: fields of TrainingRequest with their values; the pairs None, or sources and targets.
Tuple run_training(const Options& options, H pairs, H valid, H on_progress, H on_message) {
  TrainingRequest request{.spelling = keyword};
  request.pairs_in_memory = pairs_of("train: pairs", pairs);
  request.valid_pairs_in_memory = pairs_of("train: valid", valid);
  Watcher watcher(on_progress, on_message);
  TrainResult result;
  const Generator before = default_generator();  // what the caller draws later does not depend on this training
  try {
    const nb::gil_scoped_release others_may_run;
    result = trained(request, options, watcher);
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

/// (field, help) of each option.
std::vector<std::pair<std::string, std::string>> train_options() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const TrainingOption& option : training_options()) all.emplace_back(option.field, help_of(option, keyword));
  return all;
}

}  // namespace

void define_training(nb::module_& m) {
  m.def("train", &run_training, nb::arg("options"), nb::arg("pairs").none(), nb::arg("valid").none(),
        nb::arg("on_progress").none(), nb::arg("on_message").none());
  m.def("train_options", &train_options);
}

}  // namespace heed::python
