#define main wide_attention_main
#include "wide_attention.cc"
#undef main

#include <gtest/gtest.h>

#include <vector>

#include "tests/gradcheck.h"

namespace {

constexpr int64_t kBatch = 2, kLength = 3, kSize = 4, kHeads = 3;

Variable input() { return test::leaf({kBatch, kLength, kSize}); }

/// The layer as seed 000's formulas have it, element by element.
Tensor by_hand(const WideAttention& layer, const Tensor& x) {
  const Tensor &wq = layer.to_queries.weight.value(), &wk = layer.to_keys.weight.value();
  const Tensor &wv = layer.to_values.weight.value(), &wu = layer.unify_heads.weight.value();
  const Tensor y = Tensor::empty(x.shape(), DType::f64);
  const auto project = [&](const Tensor& weight, int64_t b, int64_t t, int64_t row) {
    double sum = 0;
    for (int64_t c = 0; c < kSize; ++c) sum += weight.at<double>(row, c) * x.at<double>(b, t, c);
    return sum;
  };
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t i = 0; i < kLength; ++i) {
      std::vector<double> heads;  // (heads * k)
      for (int64_t h = 0; h < kHeads; ++h) {
        std::vector<double> w;
        double sum = 0;
        for (int64_t j = 0; j < kLength; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < kSize; ++c)
            dot += project(wq, b, i, h * kSize + c) * project(wk, b, j, h * kSize + c);
          w.push_back(std::exp(dot / std::sqrt(kSize)));
          sum += w.back();
        }
        for (int64_t c = 0; c < kSize; ++c) {
          double average = 0;
          for (int64_t j = 0; j < kLength; ++j)
            average += w[static_cast<size_t>(j)] / sum * project(wv, b, j, h * kSize + c);
          heads.push_back(average);
        }
      }
      for (int64_t c = 0; c < kSize; ++c) {
        double out = layer.unify_heads.bias.value().at<double>(c);
        for (size_t r = 0; r < heads.size(); ++r) out += wu.at<double>(c, static_cast<int64_t>(r)) * heads[r];
        y.at<double>(b, i, c) = out;
      }
    }
  }
  return y;
}

class Wide : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(10);
    once.to(DType::f64);
    twice.to(DType::f64);
    // Larger than the initial values, so that the softmax is not nearly flat.
    for (const Linear* l : {&once.to_queries, &once.to_keys, &once.to_values})
      l->weight.value().copy_from(normal({kSize * kHeads, kSize}, 0, 1, DType::f64));
    copy_parameters(once, twice);
  }
  WideAttention once{kSize, kHeads, Division::by_root}, twice{kSize, kHeads, Division::by_fourth_roots};
};

TEST_F(Wide, IsItsFormula) {
  const Variable x = input();
  EXPECT_LE(largest_difference(once(x).value(), by_hand(once, x.value())), 1e-13);
}

TEST_F(Wide, FourthRootsEqualOneDivision) {
  const Variable x = input();
  EXPECT_LE(largest_difference(once(x).value(), twice(x).value()), 1e-14);
  EXPECT_LE(gradient_difference(once, twice, x), 1e-12);
}

TEST_F(Wide, HasTheShapesOfTheSeed) {
  EXPECT_EQ(once.to_queries.weight.shape(), (Dims{kSize * kHeads, kSize}));
  EXPECT_FALSE(once.to_queries.bias.defined() || once.to_keys.bias.defined() || once.to_values.bias.defined());
  EXPECT_EQ(once.unify_heads.weight.shape(), (Dims{kSize, kSize * kHeads}));
  EXPECT_EQ(once.unify_heads.bias.shape(), (Dims{kSize}));
}

TEST_F(Wide, GradientsAreRightInDouble) {
  for (WideAttention* layer : {&once, &twice}) {
    const Variable x = input();
    const Tensor weights = normal({kBatch, kLength, kSize}, 0, 1, DType::f64);
    std::vector<Variable> leaves = layer->parameters();
    leaves.push_back(x);
    test::expect_gradients([&] { return test::probe((*layer)(x), weights); }, leaves);
  }
}

TEST_F(Wide, TheLibraryHasTheSameLayer) {
  const Variable x = input();
  const auto layer = library_layer(once, kSize, kHeads);
  EXPECT_EQ(layer->parameter_count(), once.parameter_count());
  EXPECT_LE(largest_difference(once(x).value(), (*layer)(x, x, x).value()), 1e-14);
}

}  // namespace
