#include "heed/optim.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/adamw.h"
#include "kernels/chunks.h"
#include "kernels/elementwise.h"

namespace heed::inline v0 {

ParameterArena::ParameterArena(Module& module) {
  auto parameters = module.named_parameters();
  if (parameters.empty()) throw ShapeError("optimiser: the module has no parameters");
  const DType dtype = parameters[0].second.dtype();
  for (const auto& [name, parameter] : parameters)
    if (parameter.dtype() != dtype || (dtype != DType::f32 && dtype != DType::f64))
      throw ShapeError("optimiser: parameter '" + name + "' is " + name_of(parameter.dtype()) +
                       "; all must be float32 or all float64, convert the module with to()");
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const auto& p) { return p.second.shape().rank() > 1; });

  const int64_t line = 64 / static_cast<int64_t>(size_of(dtype));
  int64_t size = 0;
  for (const auto& [name, parameter] : parameters) {
    slots_.push_back({name, parameter.shape(), size});
    size += (parameter.value().numel() + line - 1) / line * line;
    if (parameter.shape().rank() > 1) decayed_ = size;
  }
  values_ = Tensor::zeros({size}, dtype);
  gradients_ = Tensor::zeros({size}, dtype);
  const NamedTensors values = named(values_), gradients = named(gradients_);
  for (size_t i = 0; i < parameters.size(); ++i) {
    values[i].second.copy_from(parameters[i].second.value());
    parameters[i].second.rebind(values[i].second, gradients[i].second);
  }
}

NamedTensors ParameterArena::named(const Tensor& arena, const std::string& prefix) const {
  NamedTensors views;
  for (const Slot& slot : slots_) {
    const int64_t count = heed::numel(slot.shape);
    views.emplace_back(prefix + slot.name, arena.slice(0, slot.offset, slot.offset + count).reshape(slot.shape));
  }
  return views;
}

double ParameterArena::gradient_norm(Executor& executor) const {
  const double sum = dtype() == DType::f32 ? sum_of_squares(gradients_.data<float>(), size(), executor)
                                           : sum_of_squares(gradients_.data<double>(), size(), executor);
  return std::sqrt(sum);
}

std::vector<double> ParameterArena::gradient_squares(IndexRange slice, Executor& executor) const {
  static_assert(kSliceBlock == kChunk);
  return dtype() == DType::f32 ? sums_of_squares(gradients_.data<float>() + slice.begin, slice.size(), executor)
                               : sums_of_squares(gradients_.data<double>() + slice.begin, slice.size(), executor);
}

AdamW::AdamW(ParameterArena& parameters, const Options& options) : AdamW(parameters, options, {0, parameters.size()}) {}

AdamW::AdamW(ParameterArena& parameters, const Options& options, IndexRange slice)
    : m(Tensor::zeros({slice.size()}, parameters.dtype())),
      v(Tensor::zeros({slice.size()}, parameters.dtype())),
      parameters_(parameters),
      slice_(slice),
      options_(options) {
  if (slice.begin < 0 || slice.end < slice.begin || slice.end > parameters.size())
    throw ShapeError("AdamW: a slice from " + std::to_string(slice.begin) + " to " + std::to_string(slice.end) +
                     "; the arena has " + std::to_string(parameters.size()) + " numbers");
  const auto probability = [](const char* name, double value) {
    if (!(value >= 0 && value < 1))
      throw ShapeError(std::string("AdamW: ") + name + " is " + std::to_string(value) + "; it must be in [0, 1)");
  };
  probability("beta1", options.beta1);
  probability("beta2", options.beta2);
  if (!(options.epsilon > 0)) throw ShapeError("AdamW: epsilon must be above 0");
  if (!(options.weight_decay >= 0)) throw ShapeError("AdamW: weight_decay must be 0 or more");
}

void AdamW::step(double learning_rate, double gradient_scale, Executor& executor) {
  ++steps;
  const auto run = [&]<class T>(T) {
    const auto part = [&](int64_t begin, int64_t end, double weight_decay) {
      begin = std::max(begin, slice_.begin);
      end = std::min(end, slice_.end);
      if (begin >= end) return;
      const AdamWOptions options{.learning_rate = learning_rate,
                                 .beta1 = options_.beta1,
                                 .beta2 = options_.beta2,
                                 .epsilon = options_.epsilon,
                                 .weight_decay = weight_decay};
      adamw_step(parameters_.values().data<T>() + begin, parameters_.gradients().data<T>() + begin,
                 m.data<T>() + begin - slice_.begin, v.data<T>() + begin - slice_.begin, end - begin, steps, options,
                 static_cast<T>(gradient_scale), executor);
    };
    part(0, parameters_.decayed(), options_.weight_decay);
    part(parameters_.decayed(), parameters_.size(), 0);
  };
  if (parameters_.dtype() == DType::f32)
    run(float{});
  else
    run(double{});
}

double clip_scale(double norm, double limit) { return limit > 0 && norm > limit ? limit / norm : 1; }

double LearningRate::at(int64_t step, double progress) const {
  const double rate = scheduled(step, progress);
  if (anneal == 0) return rate;
  return rate * std::clamp(static_cast<double>(total - step) / static_cast<double>(anneal), 0.0, 1.0);
}

double LearningRate::scheduled(int64_t step, double progress) const {
  const auto s = static_cast<double>(std::max<int64_t>(step, 1));
  const auto w = static_cast<double>(warmup);
  if (schedule == Schedule::linear)
    return (floor + (peak - floor) * std::clamp(1 - progress, 0.0, 1.0)) * (s < w ? s / w : 1);
  if (s < w) return peak * s / w;
  switch (schedule) {
    case Schedule::inverse_square_root:
      return peak * std::sqrt(std::max(w, 1.0) / s);
    case Schedule::cosine: {
      const double along = std::clamp((s - w) / std::max(static_cast<double>(total) - w, 1.0), 0.0, 1.0);
      return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * along));
    }
    case Schedule::constant:
    case Schedule::linear:  // above
      break;
  }
  return peak;
}

}  // namespace heed::inline v0
