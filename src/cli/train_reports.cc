#include "cli/train_reports.h"

#include <utility>

#include "heed/task.h"

namespace heed::cli {

HtmlReport::HtmlReport(std::optional<ReportOnTraining> report, const std::string& path, TrainWatcher& watcher)
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
    write(p.update, {{"loss/training", p.loss},
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

}  // namespace heed::cli
