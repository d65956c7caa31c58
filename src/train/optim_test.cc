#include "heed/optim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heed::inline v0 {
namespace {

TEST(LearningRate, InverseSquareRoot) {
  const LearningRate rate{.schedule = Schedule::inverse_square_root, .peak = 0.002, .warmup = 100};
  EXPECT_DOUBLE_EQ(rate.at(1), 2e-5);
  EXPECT_DOUBLE_EQ(rate.at(50), 1e-3);
  EXPECT_DOUBLE_EQ(rate.at(100), 2e-3);
  EXPECT_DOUBLE_EQ(rate.at(400), 1e-3);
  EXPECT_DOUBLE_EQ(rate.at(2500), 4e-4);
}

TEST(LearningRate, Cosine) {
  const LearningRate rate{.schedule = Schedule::cosine, .peak = 0.5, .warmup = 10, .total = 110};
  EXPECT_DOUBLE_EQ(rate.at(1), 0.05);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.5);
  EXPECT_NEAR(rate.at(35), 0.25 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(rate.at(60), 0.25, 1e-15);
  EXPECT_NEAR(rate.at(110), 0, 1e-15);
  EXPECT_NEAR(rate.at(1000), 0, 1e-15);  // it does not rise again
}

TEST(LearningRate, Constant) {
  const LearningRate rate{.schedule = Schedule::constant, .peak = 3, .warmup = 4};
  EXPECT_DOUBLE_EQ(rate.at(1), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(4), 3);
  EXPECT_DOUBLE_EQ(rate.at(1'000'000), 3);
}

TEST(LearningRate, LinearFollowsTheProgress) {
  const LearningRate rate{.schedule = Schedule::linear, .peak = 8, .floor = 2, .warmup = 4};
  EXPECT_DOUBLE_EQ(rate.at(1, 0), 2);  // a quarter of the way up
  EXPECT_DOUBLE_EQ(rate.at(4, 0), 8);
  EXPECT_DOUBLE_EQ(rate.at(2, 0.5), 2.5);  // both at once
  EXPECT_DOUBLE_EQ(rate.at(1000, 0.5), 5);
  EXPECT_DOUBLE_EQ(rate.at(5, 1), 2);
  EXPECT_DOUBLE_EQ(rate.at(5, 1.5), 2);
  EXPECT_DOUBLE_EQ((LearningRate{.schedule = Schedule::linear, .peak = 8, .warmup = 0}).at(1, 1), 0);
}

TEST(LearningRate, WithoutWarmUpStartsAtThePeak) {
  EXPECT_DOUBLE_EQ((LearningRate{.schedule = Schedule::inverse_square_root, .peak = 8, .warmup = 0}).at(1), 8);
  EXPECT_DOUBLE_EQ((LearningRate{.schedule = Schedule::inverse_square_root, .peak = 8, .warmup = 0}).at(4), 4);
  EXPECT_DOUBLE_EQ((LearningRate{.schedule = Schedule::constant, .peak = 8, .warmup = 0}).at(1), 8);
  EXPECT_NEAR((LearningRate{.schedule = Schedule::cosine, .peak = 8, .warmup = 0, .total = 2}).at(1), 4, 1e-15);
}

TEST(Clipping, ScalesOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_scale(10, 1), 0.1);
  EXPECT_EQ(clip_scale(1, 1), 1);
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_EQ(clip_scale(1e9, 0), 1);  // no clipping
}

// Two weights (1, 2) and a bias (1); values 1, -2 and 3, gradients 3, -4 and 12.
struct OneLayer {
  OneLayer() {
    layer.to(DType::f64);
    layer.weight.value().copy_from(values({1, -2}, {1, 2}));
    layer.bias.value().copy_from(values({3}, {1}));
  }
  static Tensor values(std::initializer_list<double> list, const Dims& shape) {
    const Tensor t = Tensor::empty(shape, DType::f64);
    std::copy(list.begin(), list.end(), t.data<double>());
    return t;
  }
  static void give_gradients(const ParameterArena& arena, double factor = 1) {
    for (const auto& [name, view] : arena.named(arena.gradients()))
      view.copy_from(name == "bias" ? values({12 * factor}, {1}) : values({3 * factor, -4 * factor}, {1, 2}));
  }
  double weight(int64_t i) const { return layer.weight.value().data<double>()[i]; }
  double bias() const { return layer.bias.value().data<double>()[0]; }
  Linear layer{2, 1};
};

TEST(ParameterArena, KeepsValuesAndSumsTheNorm) {
  OneLayer one;
  const ParameterArena arena(one.layer);
  EXPECT_EQ(one.weight(0), 1);
  EXPECT_EQ(one.weight(1), -2);
  EXPECT_EQ(one.bias(), 3);
  EXPECT_EQ(arena.size() % 8, 0);
  EXPECT_EQ(arena.gradient_norm(), 0);
  OneLayer::give_gradients(arena);
  EXPECT_DOUBLE_EQ(arena.gradient_norm(), 13);
  arena.zero_gradients();
  EXPECT_EQ(arena.gradient_norm(), 0);
}

TEST(AdamW, TwoStepsByHand) {
  OneLayer one;
  ParameterArena arena(one.layer);
  AdamW adamw(arena, {.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1, .weight_decay = 0.25});
  OneLayer::give_gradients(arena);
  adamw.step(0.1);
  // First step: the corrected means are g and g^2, so a value moves by rate * g / (|g| + 1); matrices decay.
  EXPECT_NEAR(one.weight(0), 1 * (1 - 0.025) - 0.1 * 3 / 4, 1e-15);
  EXPECT_NEAR(one.weight(1), -2 * (1 - 0.025) + 0.1 * 4 / 5, 1e-15);
  EXPECT_NEAR(one.bias(), 3 - 0.1 * 12 / 13, 1e-15);
  const double bias = one.bias();
  OneLayer::give_gradients(arena, 0);
  adamw.step(0.1);
  // m = 0.5 * 6 = 3, corrected by 1 - 0.25 to 4; v = 0.75 * 36 = 27, corrected by 1 - 0.5625 to 27 / 0.4375.
  EXPECT_NEAR(one.bias(), bias - 0.1 * 4 / (std::sqrt(27 / 0.4375) + 1), 1e-14);
}

TEST(AdamW, GradientScaleIsClipping) {
  OneLayer scaled, given;
  ParameterArena a(scaled.layer), b(given.layer);
  AdamW scaling(a, {.epsilon = 1}), plain(b, {.epsilon = 1});
  OneLayer::give_gradients(a);
  OneLayer::give_gradients(b, 1.0 / 13);
  scaling.step(0.1, clip_scale(a.gradient_norm(), 1));
  plain.step(0.1);
  EXPECT_NEAR(scaled.weight(0), given.weight(0), 1e-15);
  EXPECT_NEAR(scaled.weight(1), given.weight(1), 1e-15);
  EXPECT_NEAR(scaled.bias(), given.bias(), 1e-15);
}

TEST(AdamW, RefusesOptionsOutOfRange) {
  OneLayer one;
  ParameterArena arena(one.layer);
  EXPECT_THROW(AdamW(arena, {.beta1 = 1}), ShapeError);
  EXPECT_THROW(AdamW(arena, {.beta2 = -0.1}), ShapeError);
  EXPECT_THROW(AdamW(arena, {.epsilon = 0}), ShapeError);
  EXPECT_THROW(AdamW(arena, {.weight_decay = -1}), ShapeError);
  EXPECT_THROW(AdamW(arena, {.beta1 = std::numeric_limits<double>::quiet_NaN()}), ShapeError);
}

}  // namespace
}  // namespace heed::inline v0
