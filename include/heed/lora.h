// Low-rank adaptation (Hu et al. 2021, "LoRA"): few numbers that change a model whose own stay as they are.
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

/// w (out, in) + factor * b (out, rank) a (rank, in), of float32 or float64.
Tensor low_rank_sum(const Tensor& w, const Tensor& b, const Tensor& a, double factor);

/// Rows of a matrix of a model: a linear layer, or one of those that it stacks.
struct AdaptedRows {
  std::string name;       // of the layer, for the adapter's own names
  std::string parameter;  // of the model
  int64_t begin = 0, end = 0;
};

/// W + (alpha / rank) B A of each layer, where A (rank, in) begins uniform in +-1/sqrt(in) and B (out, rank) 0 (section
/// 4.1). Parameters are "NAME.lora_A.weight" and "NAME.lora_B.weight", and those of the model that are trained whole.
class LowRankAdapters : public Module {
 public:
  /// Of a float32 or float64 model, which must outlive it. `whole` names parameters that are trained with them. Throws
  /// ShapeError for options out of range and for rows that the model has not.
  LowRankAdapters(Module& model, const std::vector<AdaptedRows>& layers, const LowRankOptions& options,
                  const std::vector<std::string>& whole = {});
  ~LowRankAdapters() override;

  /// Writes the sums into the model, which computes with them from then on: merged, or as they are now. The model is
  /// in training where this is.
  void apply() const;
  /// What `compute` makes of the adapted model, a scalar, with gradients for the adapters.
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

/// A task whose model is adapted: what is learned are the adapters.
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
