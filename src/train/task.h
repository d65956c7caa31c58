// What the training loop asks of whatever is learned: batches, their loss, and how good the model is by now.
#pragma once

#include <cstdint>
#include <string>

#include "heed/train.h"
#include "train/state.h"

namespace heed::inline v0 {

class Task {
 public:
  struct Step {
    Variable loss{};
    functional::LossParts parts{};
    int64_t sequences = 0;
    double flop = 0;  // useful ones, see training_flop
  };

  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual Module& model() = 0;
  virtual Recipe recipe() const = 0;
  /// Prepares epoch 1, 2, ... and returns how many batches it has. These are a function of the data, the options and
  /// the epoch alone, so that a run goes on at any of them.
  virtual int64_t begin_epoch(int64_t epoch) = 0;
  /// The loss of batch 0, 1, ... of that epoch.
  virtual Step loss(int64_t batch) = 0;
  virtual bool has_validation() const = 0;
  /// Per token, without dropout and label smoothing.
  virtual double validation_nll() = 0;
};

/// The training loop. `options` are valid.
TrainResult run_training(Task& task, const TrainOptions& options, const std::string& directory,
                         const TrainHooks& hooks);

/// Dropout off and no tape, until it goes out of scope.
class Evaluation {
 public:
  explicit Evaluation(Module& module) : module_(module), before_(module.training()) { module_.eval(); }
  ~Evaluation() { module_.train(before_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  Module& module_;
  bool before_;
  NoGrad no_grad_;
};

/// Throws ShapeError for an id outside 0..vocab_size - 1.
void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size);

}  // namespace heed::inline v0
