#define main scale_experiment_main
#include "scale_experiment.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(ScaleExperiment, DotProductsSpreadWithTheRootOfTheirSize) {
  for (const int64_t d : {4, 64, 1024}) {
    const double root = std::sqrt(static_cast<double>(d));
    const DotProducts raw = dot_products(d, 1);
    EXPECT_NEAR(raw.mean / root, 0, 0.2) << d;  // the 16 keys are shared by all rows
    EXPECT_NEAR(raw.deviation / root, 1, 0.15) << d;
  }
}

TEST(ScaleExperiment, SoftmaxDerivative) {
  // Factor 0: weights of 1/16, |diag(w) - w w^T|^2 = 16 (15/256)^2 + 240 / 256^2.
  const DotProducts even = dot_products(8, 0);
  EXPECT_NEAR(even.largest, 1.0 / 16, 1e-15);
  EXPECT_NEAR(even.jacobian, std::sqrt(16 * 15 * 15 + 240) / 256, 1e-14);
  // All weight on one key: nothing comes through.
  const DotProducts sharp = dot_products(8, 1e6);
  EXPECT_NEAR(sharp.largest, 1, 1e-9);
  EXPECT_NEAR(sharp.jacobian, 0, 1e-7);
}

TEST(ScaleExperiment, TargetsAreReversed) {
  manual_seed(9);
  const Batch batch = draw_batch();
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t i = 0; i < kLength; ++i)
      EXPECT_EQ(batch.targets.at<int32_t>(b * kLength + i), batch.ids.at<int32_t>(b, kLength - 1 - i));
  EXPECT_LE(*std::max_element(batch.ids.span<int32_t>().begin(), batch.ids.span<int32_t>().end()), kVocabulary - 1);
}

TEST(ScaleExperiment, RunsAreReproducibleAndLearn) {
  for (const Optimiser optimiser : {Optimiser::gradient_descent, Optimiser::adam}) {
    const double rate = optimiser == Optimiser::adam ? 0.003 : 0.1;
    const auto run = train(64, true, optimiser, rate, 40), again = train(64, true, optimiser, rate, 40);
    ASSERT_EQ(run.size(), 40u);
    for (size_t i = 0; i < run.size(); ++i) {
      EXPECT_EQ(run[i].loss, again[i].loss);
      EXPECT_GT(run[i].query_key_norm, 0);
      EXPECT_LT(run[i].query_key_norm, run[i].norm);
    }
    EXPECT_LT(final_loss(run), run[0].loss - 0.1);
    // The same model apart from the factor: near each other, not equal.
    const auto without = train(64, false, optimiser, rate, 1);
    EXPECT_NEAR(without[0].loss, run[0].loss, 1);
    EXPECT_NE(without[0].loss, run[0].loss);
  }
}

}  // namespace
