#define main score_functions_main
#include "score_functions.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(ScoreFunctionExamples, AreTheirTwins) {
  const Inputs in;
  int functions = 0;
  each_function([&](const char* name, const char*, const AttentionOptions& a, const AttentionOptions& b) {
    const Apart difference = apart(in, a, b);
    EXPECT_LE(difference.out, 1e-13) << name;
    EXPECT_LE(difference.gradients, 1e-12) << name;
    EXPECT_GT(apart(in, a, {}).out, 1e-3) << name;  // and they do something
    ++functions;
  });
  EXPECT_EQ(functions, 11);
}

TEST(ScoreFunctionExamples, LearnTheirParameters) {
  for (const Learned& l : learned_parameters(Inputs{})) {
    EXPECT_GT(l.largest, 0.1) << l.name;
    EXPECT_LE(l.off, 1e-7 * (1 + l.largest)) << l.name;
  }
}

TEST(ScoreFunctionExamples, T5Buckets) {
  // Hugging Face's T5Attention._relative_position_bucket, num_buckets=32, max_distance=128, as its formula gives.
  const auto causal = [](int32_t distance) { return examples::t5_bucket(distance, 0, false); };
  for (int32_t distance = -5; distance <= 0; ++distance) EXPECT_EQ(causal(distance), 0);
  for (int32_t distance = 0; distance < 16; ++distance) EXPECT_EQ(causal(distance), distance);
  EXPECT_EQ(causal(16), 16);
  EXPECT_EQ(causal(18), 16);
  EXPECT_EQ(causal(19), 17);
  EXPECT_EQ(causal(127), 31);
  EXPECT_EQ(causal(5000), 31);
  const auto both = [](int32_t distance) { return examples::t5_bucket(distance, 0, true); };
  EXPECT_EQ(both(0), 0);
  EXPECT_EQ(both(7), 7);
  EXPECT_EQ(both(8), 8);
  EXPECT_EQ(both(1000), 15);
  EXPECT_EQ(both(-1), 17);
  EXPECT_EQ(both(-1000), 31);
}

}  // namespace
