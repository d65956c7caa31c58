// What a training shows of itself while it goes on: the page of --html, the events of --tensorboard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/training.h"
#include "cli/training_report.h"
#include "heed/event_file.h"
#include "heed/train.h"

namespace heed::cli {

/// The page of --html. What fails there is said, and training goes on.
class HtmlReport {
 public:
  /// Nothing happens where `report` is empty.
  HtmlReport(std::optional<ReportOnTraining> report, const std::string& path, TrainWatcher& watcher);

  /// Comes behind what the hooks do by now.
  void attach(TrainHooks& hooks);
  /// `model` is as the last update left it.
  void finish(Module& model, int64_t update);

 private:
  void write();
  bool try_to(const std::function<void()>& write);

  std::optional<ReportOnTraining> report_;
  const std::string path_;
  TrainWatcher& watcher_;
  bool written_ = false;
};

/// Events for TensorBoard. What fails there is said once, and training goes on.
class TensorBoard {
 public:
  /// Nothing happens where `directory` is empty.
  TensorBoard(const std::string& directory, TrainWatcher& watcher) : directory_(directory), watcher_(watcher) {}

  /// Comes behind what the hooks do by now.
  void attach(TrainHooks& hooks);

 private:
  void write(int64_t update, const EventFile::Scalars& scalars);

  const std::string directory_;
  TrainWatcher& watcher_;
  std::optional<EventFile> file_;
  bool failed_ = false;
};

}  // namespace heed::cli
