// Training of any model with a loss: the interface of a task, and the training loop.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heed/train.h"

namespace heed::inline v0 {

/// Names and values of everything that determines the weights besides the code. Training does not resume if one of them
/// has changed.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// A task to train: batches, their loss, and validation.
class Task {
 public:
  struct Step {
    Variable loss{};                // a scalar
    functional::LossParts parts{};  // for the log
    int64_t sequences = 0;          // in the batch
    double flop = 0;                // useful operations, see training_flop; 0: not reported
  };

  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual Module& model() = 0;
  /// Settings that determine the batches, besides TrainOptions.
  virtual Recipe settings() const = 0;
  /// A short checksum of the data. Training only resumes with the same data.
  struct Data {
    std::string training{}, validation{};
  };
  virtual Data data() const = 0;
  /// Prepares epoch 1, 2, ... and returns its number of batches. Batches must depend only on the data, the options and
  /// the epoch, so that a run can resume at any of them.
  virtual int64_t begin_epoch(int64_t epoch) = 0;
  /// The loss of batch 0, 1, ... of the current epoch.
  virtual Step loss(int64_t batch) = 0;
  /// Called once, before any batch, if TrainOptions::context_ranks is above 1. From then on this rank computes some
  /// rows of each sequence; the ranks of `context` have the others, and loss() and validation() return the part of
  /// these rows. The default throws ShapeError: the task's sequences cannot be split.
  virtual void split_over(Communicator& context, const MakeAttentionOperator& attention);
  /// Number of validation batches; 0: no validation data.
  virtual int64_t validation_batches() = 0;
  /// nll and count of validation batch 0, 1, ..., called under an Evaluation. Their sums give the loss per token.
  virtual functional::LossParts validation(int64_t batch) = 0;
};

/// The training loop. The directory, resuming and errors are as in train() of a Transformer. The options of batches are
/// up to the task.
TrainResult train(Task& task, const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// Switches off dropout and the tape while in scope.
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
