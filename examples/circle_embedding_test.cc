#define main circle_embedding_main
#include "circle_embedding.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(CircleEmbedding, WeightsUnderBothDivisors) {
  const double by_key_size[] = {0.4274, 0.3820, 0.1906};
  const AttentionResult seed = look_up("PERRO", spanish, english, 1 / std::sqrt(3));
  const AttentionResult formula = look_up("PERRO", spanish, english, 1 / std::sqrt(2));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(seed.weights.span<double>()[i], printed[i], 2e-16);
    EXPECT_NEAR(formula.weights.span<double>()[i], by_key_size[i], 5e-5);
  }
}

TEST(CircleEmbedding, TheFormulaIsTheDefault) {
  const Embedding embedding = circle_embedding(word_bag);
  const Tensor by_default =
      attention(embed({"PERRO"}, embedding), embed(spanish, embedding), embed(english, embedding));
  EXPECT_LE(largest_difference(by_default, look_up("PERRO", spanish, english, 1 / std::sqrt(2)).out), 1e-16);
}

TEST(CircleEmbedding, TheLaterElWins) {
  const Embedding embedding = circle_embedding(word_bag);
  EXPECT_EQ(embedding.size(), 10u);
  EXPECT_NEAR(embedding.at("EL")[0], std::cos(6 * std::numbers::pi / 11), 1e-15);
  EXPECT_NEAR(embedding.at("EL")[1], std::sin(6 * std::numbers::pi / 11), 1e-15);
}

TEST(CircleEmbedding, TheTranslationIsReadOffTheWeights) {
  for (size_t i = 0; i < spanish.size(); ++i) {
    for (const double scale : {1 / std::sqrt(2), 1 / std::sqrt(3)})
      EXPECT_EQ(translation(look_up(spanish[i], spanish, english, scale), english), english[i]);
  }
  EXPECT_EQ(nearest(look_up("PERRO", spanish, english, 1 / std::sqrt(2)), english), "HAS");
  // Sharp enough, the average becomes the value itself.
  EXPECT_EQ(nearest(look_up("PERRO", spanish, english, 50), english), "DOG");
}

}  // namespace
