// Optimisation: parameters on flat arenas, AdamW, clipping by the global norm, schedules of the learning rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/executor.h"
#include "heed/io.h"
#include "heed/nn.h"
#include "heed/tree_sum.h"

namespace heed::inline v0 {

/// Values and gradients of all parameters of a module on two flat arenas, so that the optimiser, clipping and averaging
/// are one pass each. Every parameter begins on a 64-byte boundary; those that decay (rank 2 and up) come first. Gaps
/// are and stay 0.
class ParameterArena {
 public:
  /// Moves the parameters (Variable::rebind); gradients start at 0. The module must outlive the arena and keep its
  /// dtype. Throws ShapeError when there are no parameters or they are of several dtypes.
  explicit ParameterArena(Module& module);

  const Tensor& values() const { return values_; }        // (size)
  const Tensor& gradients() const { return gradients_; }  // (size)
  int64_t size() const { return values_.numel(); }
  int64_t decayed() const { return decayed_; }  // elements [0, decayed()) belong to parameters of rank 2 and up
  DType dtype() const { return values_.dtype(); }

  /// Views into `arena` (size), of the arena's dtype, under the parameters' names with `prefix` in front.
  NamedTensors named(const Tensor& arena, const std::string& prefix = "") const;

  void zero_gradients() const { gradients_.fill(0); }
  /// The Euclidean norm of all gradients, summed in double.
  double gradient_norm(Executor& executor = default_executor()) const;
  /// Of a slice that is cut at multiples of kSliceBlock (but at the end): the sums of the squares of each kSliceBlock
  /// gradients. In their order they add up to the square of gradient_norm(), whoever has which of them.
  std::vector<double> gradient_squares(IndexRange slice, Executor& executor = default_executor()) const;
  static constexpr int64_t kSliceBlock = 16384;

 private:
  struct Slot {
    std::string name;
    Dims shape;
    int64_t offset;
  };
  std::vector<Slot> slots_;
  Tensor values_, gradients_;
  int64_t decayed_ = 0;
};

/// Adam (Kingma and Ba 2015, algorithm 1) with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
/// Biases and norms (parameters of rank 1) do not decay.
class AdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.98;  // Vaswani et al. 2017, 5.3
    double epsilon = 1e-9;
    double weight_decay = 0;  // a step takes off learning_rate * weight_decay of each value
  };
  /// Of all parameters; or of a slice of the arena alone, whose moments are all that it keeps (ZeRO stage 1:
  /// Rajbhandari et al. 2020, section 5.1).
  AdamW(ParameterArena& parameters, const Options& options);
  AdamW(ParameterArena& parameters, const Options& options, IndexRange slice);

  /// One step of the slice along its gradients times `gradient_scale`.
  void step(double learning_rate, double gradient_scale = 1, Executor& executor = default_executor());

  // The state: write to it only to restore it.
  int64_t steps = 0;
  Tensor m, v;  // (size of the slice): means of the gradients and of their squares

 private:
  ParameterArena& parameters_;
  IndexRange slice_;
  Options options_;
};

/// The factor that reduces the norm of gradients to at most `limit`; 1 if the limit is 0 (no clipping).
double clip_scale(double norm, double limit);

enum class Schedule : uint8_t {
  inverse_square_root,  // rises over `warmup` steps, then falls with 1/sqrt(step): Vaswani et al. 2017, eq. 3
  cosine,               // rises over `warmup` steps, then half a cosine down to `floor` at `total`
  constant,             // rises over `warmup` steps, then stays
  linear,               // falls to `floor` with the progress of the training, and rises over `warmup` steps
};

struct LearningRate {
  Schedule schedule = Schedule::inverse_square_root;
  double peak = 1e-3;
  double floor = 0;       // what cosine and linear end at, 0 to peak
  int64_t warmup = 2000;  // steps; 0 for none
  int64_t total = 0;      // steps in all; for cosine and anneal
  int64_t anneal = 0;     // the last steps of `total`, over which the rate also falls linearly to 0; 0 for none
  /// For step 1, 2, ...; `progress` is how much of the training was done before it, 0 to 1, which linear follows.
  double at(int64_t step, double progress = 0) const;

 private:
  double scheduled(int64_t step, double progress) const;  // without annealing
};

}  // namespace heed::inline v0
