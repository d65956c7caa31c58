// What a training shows of itself while it goes on: the page of --html, the events of --tensorboard, the update of
// --timeline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/communicator.h"
#include "heed/event_file.h"
#include "heed/profile.h"
#include "heed/timeline.h"
#include "heed/train.h"
#include "recipe/settings.h"
#include "recipe/training_report.h"

namespace heed::inline v0 {

/// The page of --html. What fails there is said, and training goes on.
class HtmlReport {
 public:
  /// Nothing happens where `report` is empty.
  HtmlReport(std::optional<ReportOnTraining> report, const std::string& path, TrainingObserver& watcher);

  /// Comes behind what the hooks do by now.
  void attach(TrainHooks& hooks);
  /// `model` is as the last update left it.
  void finish(Module& model, int64_t update);

 private:
  void write();
  bool try_to(const std::function<void()>& write);

  std::optional<ReportOnTraining> report_;
  const std::string path_;
  TrainingObserver& watcher_;
  bool written_ = false;
};

/// Events for TensorBoard. What fails there is said once, and training goes on.
class TensorBoard {
 public:
  /// Nothing happens where `directory` is empty.
  TensorBoard(const std::string& directory, TrainingObserver& watcher) : directory_(directory), watcher_(watcher) {}

  /// Comes behind what the hooks do by now.
  void attach(TrainHooks& hooks);

 private:
  void write(int64_t update, const EventFile::Scalars& scalars);

  const std::string directory_;
  TrainingObserver& watcher_;
  std::optional<EventFile> file_;
  bool failed_ = false;
};

/// `option` begins messages. Throws UsageError for a timeline in the place of what is read, or in the model's
/// directory.
void check_timeline_path(const std::string& option, const std::string& path, const std::string& directory,
                         const std::vector<std::string>& inputs);

/// What all ranks do in the second update of a run, as events of Chrome's trace format: a process for each rank, a
/// thread for each of its threads, messages beside them. What fails there is said, and training goes on.
class UpdateTimeline {
 public:
  /// Nothing happens where `path` is empty. `ranks`: nullptr where one process trains alone.
  UpdateTimeline(const std::string& path, Communicator* ranks, TrainingObserver& watcher);
  ~UpdateTimeline();
  UpdateTimeline(const UpdateTimeline&) = delete;
  UpdateTimeline& operator=(const UpdateTimeline&) = delete;

  /// Those that the training is to talk over.
  Communicator* ranks() { return timed_ ? timed_.get() : ranks_; }
  /// Comes behind what the hooks do by now.
  void attach(TrainHooks& hooks);

 private:
  void begin();
  void end();

  const std::string path_;
  Communicator* const ranks_;
  TrainingObserver& watcher_;
  Timeline timeline_;
  Profile profile_;
  std::unique_ptr<Communicator> timed_;
  int64_t updates_ = 0;  // of this run
};

}  // namespace heed::inline v0
