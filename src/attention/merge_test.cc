// merge(): edges. That the parts of any split join to the whole is a property test.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/attention.h"

namespace heed {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor row(double x, DType t = DType::f64) { return Tensor::full({1, 1, 1, 1}, x, t); }
Tensor lse(double x, DType t = DType::f64) { return Tensor::full({1, 1, 1}, x, t); }

TEST(Merge, PrintedNumbers) {
  const AttentionResult r = merge(row(2), lse(0), row(6), lse(std::log(3)));  // 1 and 3 parts of 4
  EXPECT_NEAR(r.out.item(), 5, 1e-15);
  EXPECT_NEAR(r.lse.item(), std::log(4), 1e-15);
}

TEST(Merge, SumsFarApart) {
  const AttentionResult r = merge(row(2), lse(-2000), row(6), lse(2000));
  EXPECT_EQ(r.out.item(), 6);
  EXPECT_EQ(r.lse.item(), 2000);
}

TEST(Merge, WhatSawNothingAddsNothing) {
  AttentionResult r = merge(row(kNaN), lse(-kInf), row(6), lse(1.5));
  EXPECT_EQ(r.out.item(), 6);
  EXPECT_EQ(r.lse.item(), 1.5);
  r = merge(row(7), lse(-1.5), row(kNaN), lse(-kInf));
  EXPECT_EQ(r.out.item(), 7);
  EXPECT_EQ(r.lse.item(), -1.5);
  r = merge(row(kNaN), lse(-kInf), row(5), lse(-kInf));
  EXPECT_EQ(r.out.item(), 0);
  EXPECT_EQ(r.lse.item(), -kInf);
}

TEST(Merge, NaNFlows) {
  const AttentionResult r = merge(row(1), lse(kNaN), row(5), lse(2));
  EXPECT_TRUE(std::isnan(r.out.item()));
  EXPECT_TRUE(std::isnan(r.lse.item()));
  EXPECT_TRUE(std::isnan(merge(row(kNaN), lse(1), row(5), lse(2)).out.item()));
}

TEST(Merge, HalfOutputsHaveAFloatLse) {
  const AttentionResult r = merge(row(2, DType::bf16), lse(0, DType::f32), row(6, DType::bf16), lse(0, DType::f32));
  EXPECT_EQ(r.out.dtype(), DType::bf16);
  EXPECT_EQ(r.lse.dtype(), DType::f32);
  EXPECT_EQ(r.out.to(DType::f32).item(), 4);
}

TEST(Merge, StridedPartsOfARaggedBatch) {
  const Tensor out = Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2, 1});  // (Tq, Hq, Dv)
  const Tensor sums = Tensor::zeros({2, 3}, DType::f64).transpose(0, 1);   // (Hq, Tq)
  const AttentionResult r = merge(out, sums, out.expand({3, 2, 1}), sums);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_EQ(r.out.at<double>(t, h, 0), out.at<double>(t, h, 0));
      EXPECT_NEAR(r.lse.at<double>(t, h), std::log(2), 1e-15);
    }
}

TEST(Merge, SaysWhatDoesNotFit) {
  const auto said = [](const Tensor& a, const Tensor& la, const Tensor& b, const Tensor& lb) -> std::string {
    try {
      merge(a, la, b, lb);
    } catch (const ShapeError& e) {
      return e.what();
    }
    return "(nothing thrown)";
  };
  EXPECT_EQ(said(row(1), {}, row(1), lse(1)), "merge: lse is undefined; pass results of attention() with want_lse");
  EXPECT_EQ(said(row(1), lse(1), row(1), Tensor::zeros({1, 1, 2}, DType::f64)),
            "merge: out2 has shape (1, 1, 1, 1) and lse2 (1, 1, 2); pass out (..., L, Dv) and lse (..., L), of ragged "
            "batches lse.transpose(0, 1)");
  EXPECT_EQ(said(row(1), lse(1), Tensor::zeros({1, 1, 1, 2}, DType::f64), lse(1)),
            "merge: out has shape (1, 1, 1, 1) and out2 (1, 1, 1, 2); both are of the same queries, make them equal");
  EXPECT_EQ(said(row(1, DType::f32), lse(1), row(1), lse(1)), "merge: lse is f64 beside an output in f32; pass f32");
  EXPECT_EQ(said(row(1, DType::f32), lse(1, DType::f32), row(1), lse(1)),
            "merge: out is f32 and out2 f64; convert one with to()");
}

}  // namespace
}  // namespace heed
