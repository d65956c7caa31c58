#include "recipe/reports.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "heed/io.h"
#include "heed/paths.h"
#include "heed/task.h"

namespace heed::inline v0 {

HtmlReport::HtmlReport(std::optional<ReportOnTraining> report, const std::string& path, TrainingObserver& watcher)
    : report_(std::move(report)), path_(path), watcher_(watcher) {}

void HtmlReport::attach(TrainHooks& hooks) {
  if (!report_) return;
  hooks.examine = [this](const Validation& v) { return report_->examine(v); };
  // Written at each validation, and as soon as there is something to see.
  hooks.validation = [this, next = std::move(hooks.validation)](const Validation& v) {
    next(v);
    write();
  };
  hooks.progress = [this, next = std::move(hooks.progress)](const TrainProgress& p) {
    next(p);
    if (!written_) write();
  };
}

void HtmlReport::finish(Module& model, int64_t update) {
  if (!report_) return;
  const Evaluation evaluation(model);
  if (try_to([&] { report_->finish(update); })) watcher_.line("wrote " + path_);
}

void HtmlReport::write() {
  written_ = true;
  try_to([&] { report_->write(); });
}

bool HtmlReport::try_to(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const Error& e) {
    watcher_.line("the report was not written: " + std::string(e.what()));
    return false;
  }
}

void TensorBoard::attach(TrainHooks& hooks) {
  if (directory_.empty()) return;
  hooks.progress = [this, next = std::move(hooks.progress)](const TrainProgress& p) {
    next(p);
    write(p.update, {{"loss/training", p.nll},  // as that of the validation, without label smoothing
                     {"learning_rate", p.learning_rate},
                     {"gradient_norm", p.gradient_norm},
                     {"tokens_per_second", p.words_per_second}});
  };
  hooks.validation = [this, next = std::move(hooks.validation)](const Validation& v) {
    next(v);
    EventFile::Scalars scalars;
    if (v.nll > 0) scalars.emplace_back("loss/validation", v.nll);  // 0 without data to validate on
    for (const auto& [tag, value] : {std::pair{"loss/average", v.average_nll}, std::pair{"bleu/validation", v.bleu},
                                     std::pair{"bleu/average", v.average_bleu}})
      if (value >= 0) scalars.emplace_back(tag, value);
    if (!scalars.empty()) write(v.update, scalars);
  };
}

void TensorBoard::write(int64_t update, const EventFile::Scalars& scalars) {
  if (failed_) return;
  try {
    if (!file_) file_.emplace(directory_, update);
    file_->write(update, scalars);
  } catch (const Error& e) {
    failed_ = true;
    watcher_.line("no further events for TensorBoard: " + std::string(e.what()));
  }
}

namespace {

using Json = nlohmann::ordered_json;

/// "Trace Event Format": complete events (X) on a thread, and pairs (b, e) for messages, several of which may be on
/// their way at once.
std::vector<std::string> trace_events(const Timeline& timeline, int rank) {
  std::vector<std::string> lines;
  const auto add = [&](Json event) { lines.push_back(event.dump()); };
  add({{"ph", "M"}, {"pid", rank}, {"name", "process_name"}, {"args", {{"name", "rank " + std::to_string(rank)}}}});
  int64_t message = 0;
  for (const Timeline::Span& span : timeline.spans()) {
    const bool is_message = span.kind == Timeline::Kind::message;
    const double begin = 1e6 * span.begin, end = 1e6 * span.end;  // microseconds
    Json event{{"ph", is_message ? "b" : "X"},
               {"cat", is_message                          ? "message"
                       : span.kind == Timeline::Kind::wait ? "wait"
                                                           : "operation"},
               {"name", span.kind == Timeline::Kind::wait ? "waits: " + span.name : span.name},
               {"pid", rank},
               {"tid", span.thread},
               {"ts", begin}};
    if (!is_message) event["dur"] = end - begin;
    if (is_message) event["id"] = ++message;
    if (span.to >= 0) event["args"]["to"] = span.to, event["args"]["sent"] = span.sent;
    if (span.from >= 0) event["args"]["from"] = span.from, event["args"]["received"] = span.received;
    add(event);
    if (!is_message) continue;
    event["ph"] = "e", event["ts"] = end;
    add(event);
  }
  return lines;
}

}  // namespace

void check_timeline_path(const std::string& option, const std::string& path, const std::string& directory,
                         const std::vector<std::string>& inputs) {
  if (same_file(std::filesystem::absolute(path).lexically_normal().parent_path().string(), directory))
    throw UsageError(option + " " + path + " stands among the files of the model; write it elsewhere");
  expect_other_file(option, path, inputs);
}

UpdateTimeline::UpdateTimeline(const std::string& path, Communicator* ranks, TrainingObserver& watcher)
    : path_(path), ranks_(ranks), watcher_(watcher) {
  profile_.timeline = &timeline_;
  if (!path_.empty() && ranks_) timed_ = timed(*ranks_, timeline_);
}

UpdateTimeline::~UpdateTimeline() {
  if (Profile::active() == &profile_) Profile::active() = nullptr;  // the second update has failed
}

void UpdateTimeline::attach(TrainHooks& hooks) {
  if (path_.empty()) return;
  hooks.step = [this, next = std::move(hooks.step)](const TrainStep& s) {
    next(s);
    ++updates_;
    if (updates_ == 1) begin();
    if (updates_ == 2) end();
  };
}

void UpdateTimeline::begin() {
  if (ranks_) ranks_->barrier();  // clocks of several computers begin here
  timeline_.begin();
  Profile::active() = &profile_;
}

void UpdateTimeline::end() {
  Profile::active() = nullptr;
  timeline_.end();
  const int rank = ranks_ ? ranks_->rank() : 0;
  std::vector<std::string> events = trace_events(timeline_, rank);
  if (ranks_) events = joined_lines(*ranks_, events);
  if (rank != 0) return;
  std::string text = "{\"traceEvents\":[";
  for (const std::string& event : events) text += (text.back() == '[' ? "\n" : ",\n") + event;
  try {
    write_file_atomically(path_, text + "\n]}\n");
    watcher_.line("wrote " + path_);
  } catch (const Error& e) {
    watcher_.line("the timeline was not written: " + std::string(e.what()));
  }
}

}  // namespace heed::inline v0
