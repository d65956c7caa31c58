// heed's training loop for a model and data of one's own: validation, averaging, a directory that a killed run goes on
// from. Here two layers learn how far a point is from the middle.
//   custom_task DIR     a second run goes on from what is there
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "heed/functional.h"
#include "heed/random.h"
#include "heed/task.h"

namespace {

using namespace heed;

struct Distance : Module {
  Distance() : first(2, 32), second(32, 1) {
    register_module("first", first);
    register_module("second", second);
  }
  Variable operator()(const Variable& x) const { return second(functional::linear_relu(x, first.weight, first.bias)); }
  Linear first, second;
};

class DistanceTask final : public Task {
 public:
  static constexpr int64_t kPoints = 512, kBatch = 64;
  Module& model() override { return model_; }
  Recipe settings() const override { return {{"points", std::to_string(kPoints)}}; }
  Data data() const override { return {"made up", "made up"}; }
  int64_t begin_epoch(int64_t) override { return kPoints / kBatch; }
  Step loss(int64_t batch) override {
    Step step{.loss = error(kBatch * batch, kBatch), .sequences = kBatch};
    step.parts = {.loss = kBatch * step.loss.value().item(), .nll = kBatch * step.loss.value().item(), .count = kBatch};
    return step;
  }
  int64_t validation_batches() override { return 1; }
  functional::LossParts validation(int64_t) override {
    constexpr int64_t kUnseen = 256;
    const double sum = kUnseen * error(kPoints, kUnseen).value().item();
    return {.loss = sum, .nll = sum, .count = kUnseen};
  }

 private:
  /// The mean square error of points [first, first + count), each the same in every epoch.
  Variable error(int64_t first, int64_t count) const {
    Tensor points = Tensor::empty({count, 2}), wanted = Tensor::empty({count, 1});
    for (int64_t i = 0; i < count; ++i) {
      const double angle = 2.4 * static_cast<double>(first + i),
                   radius = std::fmod(0.618 * static_cast<double>(first + i), 1);
      points.at<float>(i, 0) = static_cast<float>(radius * std::cos(angle));
      points.at<float>(i, 1) = static_cast<float>(radius * std::sin(angle));
      wanted.at<float>(i, 0) = static_cast<float>(-radius);
    }
    const Variable e = functional::add(model_(Variable(points)), Variable(wanted));
    return functional::scale(functional::sum(functional::multiply(e, e)), 1.0 / static_cast<double>(count));
  }
  Distance model_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "custom_task DIR\n");
    return 2;
  }
  try {
    manual_seed(5);
    DistanceTask task;
    TrainOptions options{.max_updates = 400, .validate_every = 100};
    options.learning_rate = {.peak = 0.01, .warmup = 20};
    TrainHooks hooks;
    hooks.validation = [](const Validation& v) {
      std::printf("update %lld: mean square error %.5f\n", static_cast<long long>(v.update), v.nll);
    };
    const TrainResult result = train(task, options, argv[1], hooks);
    std::printf("%s after update %lld: %.5f\n", result.nothing_done ? "finished already" : "finished",
                static_cast<long long>(result.update), result.best_nll);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
