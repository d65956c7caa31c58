#include "recipe/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "heed/attention_over_ranks.h"
#include "heed/executor.h"
#include "heed/label.h"
#include "heed/text.h"
#include "recipe/reports.h"

namespace heed::inline v0 {
namespace {

std::string formatted(const char* pattern, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string describe(const TrainingSettings& a, StopReason reason) {
  switch (reason) {
    case StopReason::max_updates:
      return a.name("max_updates") + " reached";
    case StopReason::max_epochs:
      return a.name("max_epochs") + " reached";
    case StopReason::max_minutes:
      return a.name("max_minutes") + " reached";
    case StopReason::patience:
      return a.name("patience") + " ran out";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

// How to continue a finished training; "" where its schedule has come to its end.
std::string how_to_continue(const TrainingSettings& a, StopReason reason) {
  const LearningRate& rate = a.options.learning_rate;
  const bool ends = rate.schedule == Schedule::linear || rate.schedule == Schedule::cosine || rate.anneal > 0;
  const std::string resume = "; to continue, train with " + a.named("resume", shell_word(a.model)) + " and a larger ";
  switch (reason) {
    case StopReason::max_minutes:
      return resume + a.name("max_minutes");
    case StopReason::max_epochs:
      return ends ? "" : resume + a.name("max_epochs");
    case StopReason::max_updates:
      return ends ? "" : resume + a.name("max_updates");
    case StopReason::patience:
      return resume + a.name("patience");
    case StopReason::interrupted:
      break;
  }
  return "";
}

void say_end(const TrainingSettings& a, TrainingObserver& watcher, const WatchedTraining& training,
             const TrainResult& result) {
  if (result.reason == StopReason::interrupted) {
    watcher.line("saved after update " + std::to_string(result.update) + "; train with " +
                 a.named("resume", shell_word(a.model)) + " to continue");
    return;
  }
  char bleu[32] = "";
  if (result.best_bleu >= 0) std::snprintf(bleu, sizeof bleu, ", BLEU %.2f", result.best_bleu);
  watcher.line((result.nothing_done ? "finished already: " : "finished: ") + describe(a, result.reason) + " after " +
               std::to_string(result.update) + " updates in " + duration(result.minutes) + "; " + a.model + "/" +
               training.file + " is " + (result.average_is_best ? "the average of checkpoints up to" : "that of") +
               " update " + std::to_string(result.best_update) +
               (training.validates ? ", validation loss " + loss_in_words(result.best_nll, training.words) : "") +
               bleu + (result.nothing_done ? how_to_continue(a, result.reason) : ""));
}

// Whether a training has made its model worse than it began, by the loss of its updates.
class LossWatch {
 public:
  void add(const TrainStep& step) {
    if (step.update == 1) first_ = step.loss;
    ++updates_;
    last_ += (step.loss - last_) / static_cast<double>(std::min(updates_, kMeanOf));
  }
  void say(const TrainingSettings& a, TrainingObserver& watcher) const {
    if (!first_ || updates_ < kMeanOf || last_ < kMuch * *first_) return;
    char text[128], peak[32];
    std::snprintf(text, sizeof text, "the loss rose from %.3g to %.3g, so the training has failed", *first_, last_);
    std::snprintf(peak, sizeof peak, "%g", a.options.learning_rate.peak);
    watcher.line(text + ("; start over in another directory with a lower " + a.name("learning_rate") + " (it was ") +
                 peak + ") or a longer " + a.name("warmup"));
  }

 private:
  static constexpr int64_t kMeanOf = 5;  // updates
  static constexpr double kMuch = 2;     // first batches may be easy ones
  int64_t updates_ = 0;                  // of this run
  std::optional<double> first_{};        // of the training, if it began in this run
  double last_ = 0;                      // mean of about the last updates
};

// Positions of two sentences whose length is nearest to moderate, in their order.
std::vector<size_t> moderate(const std::vector<std::string>& sentences) {
  constexpr int64_t kModerate = 40;  // bytes
  constexpr size_t kSamples = 2;
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), 0);
  const auto off = [&](size_t i) { return std::abs(std::ssize(sentences[i]) - kModerate); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return off(a) < off(b); });
  order.resize(std::min(order.size(), kSamples));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

std::string duration(double minutes) {
  const auto seconds = static_cast<int64_t>(minutes * 60 + 0.5);
  return formatted("%lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                   static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
}

std::string loss_in_words(double nll, const TrainWords& words) {
  return words.bits > 0 ? formatted("%.4f (%.4f bits/byte)", nll, words.bits * nll) : formatted("%.4f", nll);
}

void SampleTranslations::take(const TextPairs& texts, const std::vector<std::string>& translations) {
  constexpr int kColumns = 120;
  if (!lines_.empty()) return;
  const auto shown = [](const std::string& text) { return truncate(printable(text), kColumns); };
  for (const size_t i : moderate(texts.source))
    lines_.push_back("sample: " + shown(texts.source[i]) + "  =>  " + shown(translations[i]) +
                     "  (reference: " + shown(texts.target[i]) + ")");
}

std::vector<std::string> SampleTranslations::lines() { return std::exchange(lines_, {}); }

std::string example_of(const std::vector<std::string>& texts) {
  constexpr size_t kLookedAt = 1000, kShortest = 8, kLongest = 60;  // bytes
  for (const std::string& text : std::span(texts).first(std::min(texts.size(), kLookedAt))) {
    const bool plain =
        std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    if (plain && text.size() >= kShortest && text.size() <= kLongest && text[0] != '-' && text[0] != ' ') return text;
  }
  return "TEXT";
}

std::string first_words(const std::vector<std::string>& lines) {
  constexpr size_t kMost = 24;  // bytes
  for (const std::string& line : lines) {
    if (is_blank(line) || line[0] == '-') continue;
    const std::string content = line.substr(0, line.find('\n'));
    if (content.size() <= kMost) return content;
    size_t end = content.find_last_of(' ', kMost);
    if (end == std::string::npos || end == 0)
      for (end = kMost; (content[end] & 0xC0) == 0x80;) --end;  // within a character
    return content.substr(0, end);
  }
  return "TEXT";
}

double minutes_since_start(const TrainingSettings& a) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - a.started).count() / 60;
}

TrainResult run_watched(const TrainingSettings& a, TrainingObserver& watcher, const WatchedTraining& training,
                        TrainHooks hooks, std::optional<ReportOnTraining> report,
                        const std::function<TrainResult(const TrainOptions&, const TrainHooks&)>& train) {
  watcher.begin(training.words);
  watcher.line(training.data + ", " + std::to_string(training.model.parameter_count()) + " parameters, " +
               std::to_string(threads()) + " threads");
  hooks.attention = [](Communicator& ranks, const Split& rows) { return mpi::attention_operator(ranks, rows); };
  LossWatch losses;
  hooks.step = [&](const TrainStep& s) {
    losses.add(s);
    watcher.step(s);
  };
  hooks.progress = [&](const TrainProgress& p) { watcher.progress(p); };
  hooks.validation = [&](const Validation& v) {
    if (training.validates) watcher.validation(v);
    if (!training.samples) return;
    for (const std::string& line : training.samples->lines()) watcher.line(line);
  };
  hooks.message = [&](const std::string& text) { watcher.line(text); };
  hooks.stop = [&] { return watcher.stop(); };
  HtmlReport html(std::move(report), a.html, watcher);
  html.attach(hooks);
  TensorBoard tensorboard(a.leads() ? a.tensorboard : "", watcher);
  tensorboard.attach(hooks);
  UpdateTimeline timeline(a.timeline, a.ranks(), watcher);
  hooks.ranks = timeline.ranks();
  timeline.attach(hooks);
  TrainOptions options = a.options;
  options.minutes_before = minutes_since_start(a);
  const TrainResult result = train(options, hooks);
  if (!a.leads()) return result;
  html.finish(training.model, result.update);
  say_end(a, watcher, training, result);
  losses.say(a, watcher);
  return result;
}

}  // namespace heed::inline v0
