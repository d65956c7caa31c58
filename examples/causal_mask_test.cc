#define main causal_mask_main
#include "causal_mask.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(CausalMask, WeightsAreThePrintedOnes) {
  const Tensor weights = attend(q, k, v, {.mask = causal_mask(5)}).weights;
  // 8 digits are printed of inputs and outputs both.
  EXPECT_LE(largest_difference(weights, printed_weights), 1e-8);
  for (int64_t i = 0; i < 5; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 5; ++j) {
      sum += weights.at<double>(i, j);
      if (j > i) {
        EXPECT_EQ(weights.at<double>(i, j), 0);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-15);
  }
}

TEST(CausalMask, OutIsWeightsTimesV) {
  const Tensor out = attend(q, k, v, {.mask = causal_mask(5)}).out;
  // A printed weight is off by 5e-9 at most; five of them meet values up to 2.76.
  EXPECT_LE(largest_difference(out, product(printed_weights, v)), 5 * 5e-9 * 2.76);
  const double last_row[] = {-0.27064576, 0.34122214,  -0.19046742, -1.24074971,
                             1.37500336,  -0.55553027, -1.74494636, -0.97745139};  // by NumPy
  for (int64_t c = 0; c < 8; ++c) EXPECT_NEAR(out.at<double>(4, c), last_row[c], 1e-8);
}

TEST(CausalMask, ThePrintedOutIsOfAnotherV) {
  const Tensor out = product(printed_weights, v);
  for (int64_t row = 0; row < 5; ++row)
    EXPECT_GT(largest_difference(out.slice(0, row, row + 1), printed_out.slice(0, row, row + 1)), 0.5) << row;
}

TEST(CausalMask, MaskAndOptionAgreeInBothPrecisions) {
  const Tensor by_mask = attend(q, k, v, {.mask = causal_mask(5)}).out;
  EXPECT_LE(largest_difference(by_mask, attend(q, k, v, {.causal = Causal::top_left}).out), 1e-15);
  const auto f32 = [](const Tensor& t) { return t.to(DType::f32); };
  EXPECT_LE(largest_difference(by_mask, attend(f32(q), f32(k), f32(v), {.mask = f32(causal_mask(5))}).out), 2e-6);
}

}  // namespace
