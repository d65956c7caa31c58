#define main attention_layer_main
#include "attention_layer.cc"
#undef main

#include <gtest/gtest.h>

#include <vector>

#include "tests/gradcheck.h"

namespace {

TEST(AttentionLayer, EqualsTheBatchedLayer) {
  for (const auto& [dtype, bound] : {std::pair{DType::f32, 1e-6}, std::pair{DType::f64, 1e-14}}) {
    manual_seed(1);
    AttentionLayer layer(10, 3, 12);
    layer.to(dtype);
    EXPECT_LE(batching_matters(layer, normal({4, 7, 10}, 0, 1, dtype)), bound) << name_of(dtype);
    EXPECT_LE(batching_matters(layer, normal({2, 1, 10}, 0, 1, dtype)), bound) << name_of(dtype);
  }
}

TEST(AttentionLayer, ReturnsOutputAndWeights) {
  manual_seed(2);
  const int64_t length = 5, input_dim = 6, heads = 2, hidden = 8, size = hidden / heads;
  AttentionLayer layer(input_dim, heads, hidden);
  layer.to(DType::f64);
  for (const Variable& parameter : layer.parameters())
    parameter.value().copy_from(normal(parameter.shape(), 0, 0.5, DType::f64));
  const Variable x(normal({length, input_dim}, 0, 1, DType::f64));
  const auto [output, weights] = layer(x);
  ASSERT_EQ(output.shape(), (Dims{length, hidden}));
  ASSERT_EQ(weights.shape(), (Dims{heads, length, length}));

  // Again, element by element.
  const auto project = [&](const Linear& l, int64_t t, int64_t row) {
    double sum = l.bias.value().at<double>(row);
    for (int64_t c = 0; c < input_dim; ++c) sum += l.weight.value().at<double>(row, c) * x.value().at<double>(t, c);
    return sum;
  };
  for (int64_t i = 0; i < length; ++i) {
    std::vector<double> merged;
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double> w;
      double sum = 0;
      for (int64_t j = 0; j < length; ++j) {
        double dot = 0;
        for (int64_t c = h * size; c < (h + 1) * size; ++c) dot += project(layer.q, i, c) * project(layer.k, j, c);
        w.push_back(std::exp(dot / std::sqrt(size)));
        sum += w.back();
      }
      for (size_t j = 0; j < w.size(); ++j)
        EXPECT_NEAR(weights.at<double>(h, i, static_cast<int64_t>(j)), w[j] / sum, 1e-14);
      for (int64_t c = h * size; c < (h + 1) * size; ++c) {
        double average = 0;
        for (size_t j = 0; j < w.size(); ++j) average += w[j] / sum * project(layer.v, static_cast<int64_t>(j), c);
        merged.push_back(average);
      }
    }
    for (int64_t c = 0; c < hidden; ++c) {
      double out = layer.mixing_proj.bias.value().at<double>(c);
      for (int64_t r = 0; r < hidden; ++r)
        out += layer.mixing_proj.weight.value().at<double>(c, r) * merged[static_cast<size_t>(r)];
      EXPECT_NEAR(output.value().at<double>(i, c), out, 1e-13);
    }
  }
}

TEST(AttentionLayer, EqualsMultiheadAttentionWhereTheWidthsAgree) {
  manual_seed(3);
  const int64_t width = 8, heads = 4;
  AttentionLayer layer(width, heads, width);
  MultiheadAttention library(width, heads);
  const Linear* parts[] = {&layer.q, &layer.k, &layer.v};
  for (int64_t p = 0; p < 3; ++p) {
    library.in_proj_weight.value().slice(0, p * width, (p + 1) * width).copy_from(parts[p]->weight.value());
    library.in_proj_bias.value().slice(0, p * width, (p + 1) * width).copy_from(parts[p]->bias.value());
  }
  library.out_proj.weight.value().copy_from(layer.mixing_proj.weight.value());
  library.out_proj.bias.value().copy_from(layer.mixing_proj.bias.value());
  layer.to(DType::f64);
  library.to(DType::f64);
  const Variable x(normal({6, width}, 0, 1, DType::f64));  // (L, E)
  HeadRecord record;
  EXPECT_LE(largest_difference(layer(x).output.value(), library(x, x, x, {}, &record).value()), 1e-14);
  EXPECT_LE(largest_difference(layer(x).weights, record.weights.select(0, 0)), 1e-14);
}

TEST(AttentionLayer, GradientsAreRightInDouble) {
  manual_seed(4);
  AttentionLayer layer(3, 2, 4);
  layer.to(DType::f64);
  const Variable x = test::leaf({3, 3});
  const Tensor weights = normal({3, 4}, 0, 1, DType::f64);
  std::vector<Variable> leaves = layer.parameters();
  leaves.push_back(x);
  test::expect_gradients([&] { return test::probe(layer(x).output, weights); }, leaves);
}

TEST(AttentionLayer, HeadsThatDoNotDivideAreAClearError) {
  for (const int64_t heads : {5, 7, 25}) {
    try {
      AttentionLayer(12, heads, 24);
      ADD_FAILURE() << heads;
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.what(), "AttentionLayer: hidden_dim 24 is not a multiple of " + std::to_string(heads) +
                                  " heads; every head takes hidden_dim / n_heads of it");
    }
  }
  EXPECT_THROW(AttentionLayer(12, 0, 24), ShapeError);
  EXPECT_THROW(AttentionLayer(12, -2, 24), ShapeError);
}

}  // namespace
