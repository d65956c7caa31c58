#include <gtest/gtest.h>

#include <cmath>

#include "heed/view.h"

namespace heed {
namespace {

TEST(Statistics, ByHand) {
  const Tensor weights = Tensor::from<double>({0.5, 0.25, 0.25,  //
                                               0.0, 1.0, 0.0,    //
                                               0.1, 0.2, 0.7},
                                              {3, 3});
  const HeadStatistics s = statistics(weights);
  EXPECT_NEAR(s.diagonal_mass, (0.5 + 1 + 0.7) / 3, 1e-15);
  EXPECT_NEAR(s.previous_mass, (0.0 + 0.2) / 2, 1e-15);  // queries 1 and 2 have a previous key
  EXPECT_NEAR(s.next_mass, (0.25 + 0.0) / 2, 1e-15);
  EXPECT_NEAR(s.first_mass, (0.5 + 0.0 + 0.1) / 3, 1e-15);
  // Row 0: 1 * 0.25 + 2 * 0.25; row 1: 0; row 2: 2 * 0.1 + 1 * 0.2.
  EXPECT_NEAR(s.mean_distance, (0.75 + 0 + 0.4) / 3, 1e-15);
  // Row 0: 1.5 ln 2; row 1: 0; row 2: 0.80181855254333995 nats.
  EXPECT_NEAR(s.entropy, (1.0397207708399179 + 0 + 0.80181855254333995) / 3, 1e-14);
}

TEST(Statistics, ExtremeHeads) {
  const HeadStatistics uniform = statistics(Tensor::full({4, 5}, 0.2, DType::f32));
  EXPECT_NEAR(uniform.entropy, std::log(5), 1e-6);
  EXPECT_NEAR(uniform.diagonal_mass, 0.2, 1e-7);
  const Tensor previous = Tensor::zeros({4, 4}, DType::f32);
  previous.at<float>(0, 0) = 1;
  for (int i = 1; i < 4; ++i) previous.at<float>(i, i - 1) = 1;
  const HeadStatistics s = statistics(previous);
  EXPECT_EQ(s.previous_mass, 1);
  EXPECT_EQ(s.entropy, 0);
  EXPECT_EQ(s.mean_distance, 0.75);
  EXPECT_EQ(s.diagonal_mass, 0.25);
}

TEST(Statistics, MoreQueriesThanKeys) {
  const HeadStatistics s = statistics(Tensor::full({3, 1}, 1));
  EXPECT_EQ(s.diagonal_mass, 1);  // query 0 alone has a key of its own position
  EXPECT_EQ(s.previous_mass, 1);  // query 1
  EXPECT_EQ(s.next_mass, 0);
  EXPECT_EQ(s.mean_distance, 1);
}

TEST(Statistics, StridedHalvesAndNothing) {
  const Tensor w = Tensor::from<float>({0.25F, 0.75F, 1, 0}, {2, 2});
  EXPECT_EQ(statistics(w.transpose(0, 1)).first_mass, 0.5);  // of 0.25 and 0.75
  EXPECT_EQ(statistics(w.to(DType::f16)).diagonal_mass, 0.125);
  EXPECT_EQ(statistics(Tensor::empty({0, 3})).entropy, 0);
  EXPECT_EQ(statistics(Tensor::empty({3, 0})).first_mass, 0);
  w.at<float>(0, 0) = NAN;
  EXPECT_TRUE(std::isnan(statistics(w).diagonal_mass));
}

TEST(Statistics, RefusesOtherShapes) {
  EXPECT_THROW(statistics(Tensor::empty({2, 3, 3})), ShapeError);
  EXPECT_THROW(statistics(Tensor::empty({3, 3}, DType::i32)), ShapeError);
  EXPECT_THROW(statistics(Tensor{}), ShapeError);
}

}  // namespace
}  // namespace heed
