// Training whatever has a loss: what the training loop asks of it, and the loop.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heed/train.h"

namespace heed::inline v0 {

/// Names and values of everything that decides the weights besides the code: what a training is not gone on with where
/// one of them has changed.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// What is learned: batches, their loss, and how good the model is by now.
class Task {
 public:
  struct Step {
    Variable loss{};                // a scalar
    functional::LossParts parts{};  // what the log reports of it
    int64_t sequences = 0;          // in the batch
    double flop = 0;                // useful ones, see training_flop; 0: not reported
  };

  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual Module& model() = 0;
  /// What chooses the batches, beyond the options of every training.
  virtual Recipe settings() const = 0;
  /// What the data are, in a few letters (a checksum): a training goes on with the same only.
  struct Data {
    std::string training{}, validation{};
  };
  virtual Data data() const = 0;
  /// Prepares epoch 1, 2, ... and returns how many batches it has. These are a function of the data, the options and
  /// the epoch alone, so that a run goes on at any of them.
  virtual int64_t begin_epoch(int64_t epoch) = 0;
  /// The loss of batch 0, 1, ... of that epoch.
  virtual Step loss(int64_t batch) = 0;
  /// With TrainOptions::context_ranks above 1, once, before any batch: of every batch's sequences this rank computes
  /// some rows from now on, and `context` are the ranks that have the others. What loss() and validation() return is
  /// of these rows. Throws ShapeError for a task whose sequences cannot be split: any, unless it overrides this.
  virtual void split_over(Communicator& context, const MakeAttentionOperator& attention);
  /// Of the validation data; 0: there are none.
  virtual int64_t validation_batches() = 0;
  /// Of batch 0, 1, ... of them: nll and count, asked under an Evaluation. Their sums give the loss per token.
  virtual functional::LossParts validation(int64_t batch) = 0;
};

/// The training loop: everything that train() of a Transformer says of its directory, of resuming and of errors holds
/// for any task. Options of batches are the task's own.
TrainResult train(Task& task, const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

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

}  // namespace heed::inline v0
