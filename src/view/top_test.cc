#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "heed/label.h"
#include "heed/view.h"

namespace heed {
namespace {

AttentionMap map_of(std::vector<std::string> keys) {
  return {.weights = Tensor::from<float>({0.7F, 0.2F, 0.1F, 0, 0.05F, 0.95F, 0, 0, 0}, {3, 3}),
          .query_labels = {"my", "dog", "x"},
          .key_labels = std::move(keys),
          .title = "T"};
}

TEST(Top, ALineForEachQuery) {
  EXPECT_EQ(render_top(map_of({"mi", "perro", "."}), 2),
            "T\n"
            " my  mi 0.700     perro 0.200\n"
            "dog  . 0.950      perro 0.050\n"
            "  x  nothing\n"
            "note: 1 row is all zero\n");
}

TEST(Top, FoldsToTheWidth) {
  EXPECT_EQ(render_top(map_of({"mi", "perro", "."}), 3, {.width = 24}),
            "T\n"
            " my  mi 0.700\n"
            "     perro 0.200\n"
            "     . 0.100\n"
            "dog  . 0.950\n"
            "     perro 0.050\n"
            "  x  nothing\n"
            "note: 1 row is all zero\n");
}

TEST(Top, LikeLabelsCarryTheirPosition) {
  const std::string got = render_top(map_of({"el", "perro", "el"}), 1);
  EXPECT_NE(got.find(" my  el[0] 0.700\n"), std::string::npos) << got;
  EXPECT_NE(got.find("dog  el[2] 0.950\n"), std::string::npos) << got;
  AttentionMap map = map_of({});
  map.key_labels.clear();
  EXPECT_NE(render_top(map, 1).find("dog  2 0.950\n"), std::string::npos);
}

TEST(Top, ColourOnlyWhereThereIsSome) {
  const AttentionMap map = map_of({"a", "b", "c"});
  EXPECT_EQ(render_top(map, 2).find('\x1b'), std::string::npos);
  const std::string colored = render_top(map, 2, {.color = TerminalColor::true_color});
  EXPECT_NE(colored.find("\x1b[48;2;"), std::string::npos);
  EXPECT_NE(colored.find("\x1b[0m"), std::string::npos);
}

TEST(Top, KeysOfAWholeSort) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform;
  const Tensor weights = Tensor::empty({5, 40});
  for (float& w : weights.span<float>()) w = std::round(uniform(random) * 20) / 20;  // many are alike
  for (const int64_t count : {1, 7, 40, 100}) {
    const auto top = top_keys(weights, count);
    ASSERT_EQ(top.size(), 5U);
    for (int64_t i = 0; i < 5; ++i) {
      std::vector<std::pair<float, int64_t>> all;
      for (int64_t j = 0; j < 40; ++j)
        if (weights.at<float>(i, j) > 0) all.emplace_back(-weights.at<float>(i, j), j);
      std::sort(all.begin(), all.end());
      all.resize(std::min(all.size(), static_cast<size_t>(count)));
      const auto& row = top[static_cast<size_t>(i)];
      ASSERT_EQ(row.size(), all.size());
      for (size_t n = 0; n < all.size(); ++n) {
        EXPECT_EQ(row[n].key, all[n].second);
        EXPECT_EQ(row[n].weight, static_cast<double>(-all[n].first));
      }
    }
  }
}

TEST(Top, HostileLabelsAndWeights) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  AttentionMap map{.weights = Tensor::from<float>({kNan, 0.5F, kInf, -1, 1e30F, 0.5F}, {2, 3}),
                   .query_labels = {"\x1b[31m", "\u05E9\u05DC\u05D5\u05DD"},
                   .key_labels = {"a\nb", std::string(10000, 'x'), "\u202E\xff"}};
  for (const int width : {20, 33, 80})
    for (const bool unicode : {false, true}) {
      const std::string got = render_top(map, 3, {.width = width, .unicode = unicode});
      EXPECT_EQ(got.find('\x1b'), std::string::npos);
      EXPECT_EQ(got.find("\u202E"), std::string::npos);
      EXPECT_NE(got.find("not finite"), std::string::npos) << got;
      EXPECT_NE(got.find("below 0"), std::string::npos) << got;
      for (size_t begin = 0; begin < got.size();) {
        const size_t end = got.find('\n', begin);
        EXPECT_LE(display_width(got.substr(begin, end - begin)), width) << got;
        begin = end + 1;
      }
    }
}

TEST(Top, Refuses) {
  EXPECT_THROW(top_keys(Tensor::zeros({2, 3, 3}), 1), ShapeError);
  EXPECT_THROW(top_keys(Tensor::zeros({3, 3}), 0), ShapeError);
  EXPECT_THROW(render_top({.weights = Tensor::zeros({3, 3}, DType::i64)}, 1), ShapeError);
  EXPECT_THROW(render_top({.weights = Tensor::zeros({3, 3}), .query_labels = {"a"}}, 1), ShapeError);
  EXPECT_TRUE(top_keys(Tensor::zeros({0, 3}), 2).empty());
  EXPECT_NE(render_top({.weights = Tensor::zeros({0, 3})}, 2).find("no weights"), std::string::npos);
}

TEST(OddWeights, SayEachKind) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(odd_weights({.weights = Tensor::from<float>({0.5F, 0.5F}, {1, 2})}).empty());
  const Tensor odd = Tensor::from<float>({0.2F, 0.2F, 0, 0, kNan, 1, -1, 2}, {4, 2});
  EXPECT_EQ(odd_weights({.weights = odd}),
            (std::vector<std::string>{"1 row does not sum to 1 (query 0 sums to 0.4)", "1 row is all zero",
                                      "1 weight is not finite", "1 weight is below 0"}));
}

TEST(HeadLabels, NameTheMaps) {
  AttentionMap map{.weights = Tensor::full({2, 2, 2}, 0.5), .head_labels = {"head 3", "head 7"}};
  const std::string got = render_terminal(map);
  EXPECT_NE(got.find("head 3"), std::string::npos);
  EXPECT_NE(got.find("head 7"), std::string::npos);
  map.head_labels.pop_back();
  EXPECT_THROW(render_terminal(map), ShapeError);
}

}  // namespace
}  // namespace heed
