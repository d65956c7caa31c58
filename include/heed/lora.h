// Low-rank adaptation (Hu et al. 2021, "LoRA"): trains a few additional parameters of a model with frozen weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/nn.h"
#include "heed/task.h"

namespace heed::inline v0 {

struct LowRankOptions {
  int64_t rank = 8;
  double alpha = 16;
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const LowRankOptions& options);

/// w (out, in) + factor * b (out, rank) a (rank, in), float32 or float64.
Tensor low_rank_sum(const Tensor& w, const Tensor& b, const Tensor& a, double factor);

/// Rows of a model's matrix that form one linear layer: all of them, or those of one of several joined layers.
struct AdaptedRows {
  std::string name;       // of the layer, for the names of the adapter's parameters
  std::string parameter;  // the model's parameter
  int64_t begin = 0, end = 0;
};

/// Replaces W of each layer by W + (alpha / rank) B A. A (rank, in) is initialised uniformly in +-1/sqrt(in), B (out,
/// rank) with 0 (section 4.1). Parameters are "NAME.lora_A.weight", "NAME.lora_B.weight" and those of the model that
/// are trained as a whole.
class LowRankAdapters : public Module {
 public:
  /// `model` is float32 or float64 and must outlive this object. `whole` names parameters of the model to train as a
  /// whole. Throws ShapeError for options out of range and for rows that the model does not have.
  LowRankAdapters(Module& model, const std::vector<AdaptedRows>& layers, const LowRankOptions& options,
                  const std::vector<std::string>& whole = {});
  ~LowRankAdapters() override;

  /// Writes the current sums into the model, which computes with them from then on (also to merge the adapters). The
  /// model gets this module's training mode.
  void apply() const;
  /// Calls `compute`, which returns a scalar from the adapted model; the result has gradients for the adapters.
  Variable operator()(const std::function<Variable()>& compute) const;

  const LowRankOptions& options() const { return options_; }
  const std::vector<AdaptedRows>& layers() const { return layers_; }

 private:
  struct Layer;
  Module& model_;
  LowRankOptions options_;
  std::vector<AdaptedRows> layers_;
  std::vector<Layer> adapted_;
};

/// A task that trains the adapters of its model.
class AdaptedTask final : public Task {
 public:
  AdaptedTask(Task& task, LowRankAdapters& adapters) : task_(task), adapters_(adapters) {}

  Module& model() override { return adapters_; }
  Recipe settings() const override;
  Data data() const override { return task_.data(); }
  int64_t begin_epoch(int64_t epoch) override { return task_.begin_epoch(epoch); }
  Step loss(int64_t batch) override;
  void split_over(Communicator& context, const MakeAttentionOperator& attention) override {
    task_.split_over(context, attention);
  }
  int64_t validation_batches() override { return task_.validation_batches(); }
  functional::LossParts validation(int64_t batch) override;

 private:
  Task& task_;
  LowRankAdapters& adapters_;
};

}  // namespace heed::inline v0
