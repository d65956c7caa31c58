#define main head_cost_experiment_main
#include "head_cost_experiment.cc"
#undef main

#include <gtest/gtest.h>

namespace {

TEST(HeadCost, CountsWorkAndParameters) {
  const int64_t length = 12, width = 16;
  const std::vector<Shape> shapes = shapes_to_compare(length, width);
  const std::vector<Cost> costs = measure(shapes, 1);
  ASSERT_EQ(costs.size(), 7u);
  // Four products of (12, 16) with (16, 16), then twice (12, 16) with (16, 12).
  EXPECT_EQ(costs[0].multiply_adds, 4 * 12 * 16 * 16 + 2 * 12 * 12 * 16);
  EXPECT_EQ(costs[0].parameters, 4 * 16 * 16);
  for (size_t i = 1; i < shapes.size(); ++i) {
    const bool wide = shapes[i].head_dim == width;
    const int64_t factor = wide ? shapes[i].heads : 1;
    EXPECT_EQ(wide, i > 3);
    EXPECT_EQ(costs[i].parameters, factor * costs[0].parameters) << i;
    EXPECT_EQ(costs[i].multiply_adds, static_cast<double>(factor) * costs[0].multiply_adds) << i;
  }
  for (const Cost& c : costs) {
    EXPECT_GT(c.forward_ms, 0);
    EXPECT_GT(c.training_ms, 0);
  }
}

TEST(HeadCost, Median) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({5, 1, 9, 100, 2}), 5);
}

}  // namespace
