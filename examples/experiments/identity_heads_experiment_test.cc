#define main identity_heads_experiment_main
#include "identity_heads_experiment.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(IdentityHeads, StatisticsAreThoseOfTheWeights) {
  manual_seed(7);
  const Tagger model(/*residual_path=*/true);
  const Tensor ids = draw_batch().ids;
  const std::vector<Head> heads = look(model, ids);
  std::vector<Tensor> weights;
  model(ids, &weights);
  ASSERT_EQ(heads.size(), static_cast<size_t>(kLayers * kHeads));
  for (const Head& head : heads) {
    const Tensor& w = weights[static_cast<size_t>(head.layer)];
    double diagonal = 0, entropy = 0, distance = 0;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t i = 0; i < kLength; ++i) {
        for (int64_t j = 0; j < kLength; ++j) {
          const double p = w.at<float>(b, head.head, i, j);
          if (i == j) diagonal += p;
          entropy -= p * std::log(p);
          distance += p * static_cast<double>(std::abs(i - j));
        }
      }
    }
    const double rows = static_cast<double>(kBatch * kLength);
    EXPECT_NEAR(head.statistics.diagonal_mass, diagonal / rows, 1e-12);
    EXPECT_NEAR(head.statistics.entropy, entropy / rows, 1e-12);
    EXPECT_NEAR(head.statistics.mean_distance, distance / rows, 1e-12);
  }
}

TEST(IdentityHeads, TheTaskIsLearned) {
  for (const bool residual : {true, false}) {
    manual_seed(8);
    Tagger model(residual);
    EXPECT_NEAR(train(model, 1), std::log(double{kVocabulary}), 1);
    EXPECT_LT(train(model, 300), residual ? 1.0 : 1.9) << residual;
  }
}

TEST(IdentityHeads, WithAResidualPathItIsTheLibrarysEncoder) {
  manual_seed(10);
  const Tagger model(/*residual_path=*/true);
  TransformerEncoder library(
      {.d_model = kWidth, .nhead = kHeads, .dim_feedforward = 4 * kWidth, .dropout = 0, .norm_first = true}, kLayers,
      /*final_norm=*/true);
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, parameter] : model.encoder.named_parameters()) values.emplace_back(name, parameter.value());
  library.load(values);
  const Tensor ids = draw_batch().ids;
  const Tensor places = SinusoidalPositions(kWidth).rows(0, kLength, DType::f32).expand({kBatch, kLength, kWidth});
  const Variable x = F::add(model.embed(ids), Variable(places.contiguous()));
  const Tensor expected = model.classify(library(x, {})).value().reshape({kBatch * kLength, kVocabulary});
  const Tensor got = model(ids).value();
  for (int64_t i = 0; i < got.numel(); ++i) EXPECT_NEAR(got.span<float>()[i], expected.span<float>()[i], 1e-5);
}

TEST(IdentityHeads, TargetsAreTheirDefinition) {
  manual_seed(9);
  const Batch batch = draw_batch();
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto id = [&](int64_t i) { return batch.ids.at<int32_t>(b, i); };
    const auto target = [&](int64_t i) { return batch.targets.at<int32_t>(b * kLength + i); };
    EXPECT_EQ(target(0), id(0));
    EXPECT_EQ(target(1), id(10));
    EXPECT_EQ(target(2), (id(2) + id(1)) % 8);
    EXPECT_EQ(target(11), id(0));
  }
}

}  // namespace
