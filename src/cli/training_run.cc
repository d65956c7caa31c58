#include "cli/training_run.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/train_reports.h"
#include "heed/attention_over_ranks.h"
#include "heed/executor.h"

namespace heed::cli {
namespace {

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::max_updates:
      return "--max-updates reached";
    case StopReason::max_epochs:
      return "--max-epochs reached";
    case StopReason::max_minutes:
      return "--max-minutes reached";
    case StopReason::patience:
      return "--patience ran out";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

void say_end(const TrainArguments& a, TrainWatcher& watcher, const WatchedTraining& training,
             const TrainResult& result) {
  if (result.reason == StopReason::interrupted) {
    watcher.line("saved after update " + std::to_string(result.update) + "; heed train --resume " + a.model +
                 " goes on from here");
    return;
  }
  char bleu[32] = "";
  if (result.best_bleu >= 0) std::snprintf(bleu, sizeof bleu, ", BLEU %.2f", result.best_bleu);
  watcher.line((result.nothing_done ? "finished already: " : "finished: ") + describe(result.reason) + " after " +
               std::to_string(result.update) + " updates in " + duration(result.minutes) + "; " + a.model + "/" +
               training.file + " is " + (result.average_is_best ? "the average of checkpoints up to" : "that of") +
               " update " + std::to_string(result.best_update) +
               (training.validates ? ", validation loss " + loss_in_words(result.best_nll, training.words) : "") +
               bleu);
}

}  // namespace

double minutes_since_start(const TrainArguments& a) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - a.started).count() / 60;
}

TrainResult run_watched(const TrainArguments& a, TrainWatcher& watcher, const WatchedTraining& training,
                        TrainHooks hooks, std::optional<ReportOnTraining> report,
                        const std::function<TrainResult(const TrainOptions&, const TrainHooks&)>& train) {
  watcher.begin(training.words);
  watcher.line(training.data + ", " + std::to_string(training.model.parameter_count()) + " parameters, " +
               std::to_string(threads()) + " threads");
  hooks.attention = [](Communicator& ranks, const Split& rows) { return mpi::attention_operator(ranks, rows); };
  hooks.step = [&](const TrainStep& s) { watcher.step(s); };
  hooks.progress = [&](const TrainProgress& p) { watcher.progress(p); };
  hooks.validation = [&](const Validation& v) {
    if (training.validates) watcher.validation(v);
  };
  hooks.message = [&](const std::string& text) { watcher.line(text); };
  hooks.stop = [&] { return watcher.stop(); };
  HtmlReport html(std::move(report), a.html, watcher);
  html.attach(hooks);
  TensorBoard tensorboard(a.leads() ? a.tensorboard : "", watcher);
  tensorboard.attach(hooks);
  UpdateTimeline timeline(a.timeline, a.ranks, watcher);
  hooks.ranks = timeline.ranks();
  timeline.attach(hooks);
  TrainOptions options = a.options;
  options.minutes_before = minutes_since_start(a);
  const TrainResult result = train(options, hooks);
  if (!a.leads()) return result;
  html.finish(training.model, result.update);
  say_end(a, watcher, training, result);
  return result;
}

}  // namespace heed::cli
