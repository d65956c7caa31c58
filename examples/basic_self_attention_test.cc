#define main basic_self_attention_main
#include "basic_self_attention.cc"
#undef main

#include <gtest/gtest.h>

namespace {

constexpr int64_t kSize = 32, kHeads = 4;

double unit_roundoff(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : 0x1p-53; }

TEST(BasicSelfAttention, IsItsFormula) {
  manual_seed(1);
  const int64_t length = 5, k = 3;
  const Tensor x = normal({1, length, k}, 0, 1, DType::f64);
  Tensor weights;
  const Tensor y = basic(Variable(x), &weights).value();
  for (int64_t i = 0; i < length; ++i) {
    double w[5], sum = 0;
    for (int64_t j = 0; j < length; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < k; ++c) dot += x.at<double>(0, i, c) * x.at<double>(0, j, c);
      sum += w[j] = std::exp(dot);
    }
    for (int64_t j = 0; j < length; ++j) EXPECT_NEAR(weights.at<double>(0, 0, i, j), w[j] / sum, 1e-14);
    for (int64_t c = 0; c < k; ++c) {
      double average = 0;
      for (int64_t j = 0; j < length; ++j) average += w[j] / sum * x.at<double>(0, j, c);
      EXPECT_NEAR(y.at<double>(0, i, c), average, 1e-14);
    }
  }
}

TEST(BasicSelfAttention, RowsOfWeightsSumToOne) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    manual_seed(4);
    const Tensor x = normal({1, 7, kSize}, 0, 1, dtype);
    for (const auto& [name, layer] : steps(kSize, kHeads, dtype))
      EXPECT_LE(rows_off_one(layer, x), kRounding * unit_roundoff(dtype)) << name << " " << name_of(dtype);
  }
}

TEST(BasicSelfAttention, AnotherOrderInGivesThatOrderOut) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::vector<int64_t>& order : {std::vector<int64_t>{3, 0, 6, 2, 5, 1, 4}, {6, 5, 4, 3, 2, 1, 0}}) {
      manual_seed(4);
      const Tensor x = normal({1, 7, kSize}, 0, 1, dtype);
      for (const auto& [name, layer] : steps(kSize, kHeads, dtype)) {
        if (std::string(name) == "positions, block") {
          EXPECT_GT(order_matters(layer, x, order), 0.05) << name;
        } else {
          EXPECT_LE(order_matters(layer, x, order), kRounding * unit_roundoff(dtype)) << name << " " << name_of(dtype);
        }
      }
    }
  }
}

TEST(BasicSelfAttention, BlocksAreTheLibrarys) {
  manual_seed(2);
  const Variable x(normal({2, 6, kSize}, 0, 1, DType::f64));
  for (const bool norm_first : {false, true}) {
    TransformerEncoderLayer block(
        {.d_model = kSize, .nhead = kHeads, .dim_feedforward = 64, .dropout = 0, .norm_first = norm_first});
    block.to(DType::f64);
    const Tensor y = block(x).value();
    EXPECT_LE(largest_difference(y, (norm_first ? pre_norm : post_norm)(block, x, nullptr).value()), 1e-14);
    EXPECT_GT(largest_difference(y, (norm_first ? post_norm : pre_norm)(block, x, nullptr).value()), 0.1);
  }
}

}  // namespace
