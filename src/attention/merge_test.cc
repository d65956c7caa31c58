// merge(): edges. That the parts of any split join to the whole is a property test.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/testing.h"
#include "heed/attention.h"

namespace heed {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor row(double x, DType t = DType::f64) { return Tensor::full({1, 1, 1, 1}, x, t); }
Tensor lse(double x, DType t = DType::f64) { return Tensor::full({1, 1, 1}, x, t); }

AttentionResult joined(const Tensor& out, const Tensor& lse, const Tensor& out2, const Tensor& lse2) {
  AttentionResult a, b;
  a.out = out, a.lse = lse, b.out = out2, b.lse = lse2;
  return merge(a, b);
}

TEST(Merge, PrintedNumbers) {
  const AttentionResult r = joined(row(2), lse(0), row(6), lse(std::log(3)));  // 1 and 3 parts of 4
  EXPECT_NEAR(r.out.item(), 5, 1e-15);
  EXPECT_NEAR(r.lse.item(), std::log(4), 1e-15);
}

TEST(Merge, SumsFarApart) {
  const AttentionResult r = joined(row(2), lse(-2000), row(6), lse(2000));
  EXPECT_EQ(r.out.item(), 6);
  EXPECT_EQ(r.lse.item(), 2000);
}

TEST(Merge, WhatSawNothingAddsNothing) {
  AttentionResult r = joined(row(kNaN), lse(-kInf), row(6), lse(1.5));
  EXPECT_EQ(r.out.item(), 6);
  EXPECT_EQ(r.lse.item(), 1.5);
  r = joined(row(7), lse(-1.5), row(kNaN), lse(-kInf));
  EXPECT_EQ(r.out.item(), 7);
  EXPECT_EQ(r.lse.item(), -1.5);
  r = joined(row(kNaN), lse(-kInf), row(5), lse(-kInf));
  EXPECT_EQ(r.out.item(), 0);
  EXPECT_EQ(r.lse.item(), -kInf);
}

TEST(Merge, NaNFlows) {
  const AttentionResult r = joined(row(1), lse(kNaN), row(5), lse(2));
  EXPECT_TRUE(std::isnan(r.out.item()));
  EXPECT_TRUE(std::isnan(r.lse.item()));
  EXPECT_TRUE(std::isnan(joined(row(kNaN), lse(1), row(5), lse(2)).out.item()));
}

TEST(Merge, HalfOutputsHaveAFloatLse) {
  const AttentionResult r = joined(row(2, DType::bf16), lse(0, DType::f32), row(6, DType::bf16), lse(0, DType::f32));
  EXPECT_EQ(r.out.dtype(), DType::bf16);
  EXPECT_EQ(r.lse.dtype(), DType::f32);
  EXPECT_EQ(r.out.to(DType::f32).item(), 4);
}

TEST(Merge, StridedPartsOfARaggedBatch) {
  const Tensor out = Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2, 1});  // (Tq, Hq, Dv)
  const Tensor sums = Tensor::zeros({2, 3}, DType::f64).transpose(0, 1);   // (Hq, Tq)
  const AttentionResult r = joined(out, sums, out.expand({3, 2, 1}), sums);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_EQ(r.out.at<double>(t, h, 0), out.at<double>(t, h, 0));
      EXPECT_NEAR(r.lse.at<double>(t, h), std::log(2), 1e-15);
    }
}

TEST(Merge, LargeSumsKeepTheirShares) {
  // 5 and 3 keys of one score, of which float32 has nothing but the score.
  for (const float score : {-1e20f, -1e9f, -1e4f, 1e4f, 1e9f, 1e20f, 3.4e38f}) {
    AttentionResult a, b;
    a.out = row(1, DType::f32), b.out = row(9, DType::f32);
    a.lse = b.lse = lse(score, DType::f32);
    a.lse_low = lse(std::log(5), DType::f32), b.lse_low = lse(std::log(3), DType::f32);
    const AttentionResult r = merge(a, b);
    EXPECT_NEAR(r.out.item(), (5 * 1 + 3 * 9) / 8.0, 1e-6) << score;
    EXPECT_NEAR(r.lse.item() - static_cast<double>(score) + r.lse_low.item(), std::log(8), 1e-6) << score;
    a.lse_low = {};
    if (std::fabs(score) < 8192) continue;
    EXPECT_NE(test::refusal([&] { merge(a, b); }).find("merge: a has a lse of "), std::string::npos) << score;
  }
}

TEST(Merge, SaysWhatDoesNotFit) {
  const auto said = [](const Tensor& a, const Tensor& la, const Tensor& b, const Tensor& lb) -> std::string {
    try {
      joined(a, la, b, lb);
    } catch (const ShapeError& e) {
      return e.what();
    }
    return "(nothing thrown)";
  };
  EXPECT_EQ(said(row(1), {}, row(1), lse(1)), "merge: a.lse is undefined; pass results of attention() with want_lse");
  EXPECT_EQ(
      said(row(1), lse(1), row(1), Tensor::zeros({1, 1, 2}, DType::f64)),
      "merge: b.out has shape (1, 1, 1, 1) and b.lse (1, 1, 2); pass out (..., L, Dv) and lse (..., L), of ragged "
      "batches lse.transpose(0, 1)");
  EXPECT_EQ(
      said(row(1), lse(1), Tensor::zeros({1, 1, 1, 2}, DType::f64), lse(1)),
      "merge: a.out has shape (1, 1, 1, 1) and b.out (1, 1, 1, 2); both are of the same queries, make them equal");
  EXPECT_EQ(said(row(1, DType::f32), lse(1), row(1), lse(1)), "merge: a.lse is f64 beside an output in f32; pass f32");
  EXPECT_EQ(said(row(1, DType::f32), lse(1, DType::f32), row(1), lse(1)),
            "merge: a.out is f32 and b.out f64; convert one with to()");
}

}  // namespace
}  // namespace heed
