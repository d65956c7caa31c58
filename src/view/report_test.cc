#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heed/view.h"
#include "view/testing.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

// Weights (layers, heads, n, n) whose row i of head h falls away from key (i + h) mod n by `factor`.
Tensor weights(int64_t layers, int64_t heads, int64_t n, double factor) {
  const Tensor w = Tensor::empty({layers, heads, n, n}, DType::f64);
  for (int64_t l = 0; l < layers; ++l)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        const auto raw = [&](int64_t j) {
          return std::pow(factor, static_cast<double>(std::abs(j - (i + h + l) % n)));
        };
        for (int64_t j = 0; j < n; ++j) sum += raw(j);
        for (int64_t j = 0; j < n; ++j) w.at<double>(l, h, i, j) = raw(j) / sum;
      }
  return w;
}

TrainingReport with_maps() {
  ReportSentence sentence{.text = "a b c", .kinds = {{"Encoder", "", {"a", "b", "c"}, {"a", "b", "c"}}, {"Cross"}}};
  for (const int64_t update : {0, 10, 25})
    sentence.moments.push_back(
        {update, {weights(2, 2, 3, 1 / (1.0 + static_cast<double>(update))), weights(1, 2, 5, 0.5)}});
  return {.title = "t", .sentences = {sentence}};
}

std::string refusal(const TrainingReport& report) {
  try {
    render_report(report);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Report, CurvesAreKept) {
  TrainingReport report{.title = "Training", .text = "a text", .facts = {{"Update", "3"}}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  report.figures.push_back(
      {"Loss", "note", {{"training", {{1, 0.5, 4}, {2, 1, nan}, {3, 1.5, 2}}}, {"validation", {}}}, true});
  const Json data = data_of(render_report(report));
  EXPECT_EQ(data["facts"], Json::parse(R"([["Update", "3"]])"));
  EXPECT_EQ(data["figures"][0]["logarithmic"], true);
  const Json& curve = data["figures"][0]["curves"][0];
  EXPECT_EQ(curve["updates"], Json::parse("[1, 3]"));
  EXPECT_EQ(curve["minutes"], Json::parse("[0.5, 1.5]"));
  EXPECT_EQ(curve["values"], Json::parse("[4.0, 2.0]"));
  EXPECT_EQ(data["figures"][0]["curves"][1]["values"], Json::array());
  EXPECT_EQ(data["groups"], Json::array());
}

TEST(Report, LongCurvesAreDrawnAsMeans) {
  for (const int64_t count : {1000, 1001, 5000, 123457}) {
    ReportCurve curve{"c"};
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      curve.points.push_back({i + 1, 0, std::sin(static_cast<double>(i))});
      sum += curve.points.back().value;
    }
    const Json data = data_of(render_report({.figures = {{"f", "", {curve}}}}));
    const Json& drawn = data["figures"][0]["curves"][0];
    const auto together = drawn["together"].get<int64_t>();
    EXPECT_EQ(together, (count + 999) / 1000);
    const auto values = drawn["values"].get<std::vector<double>>();
    ASSERT_LE(values.size(), 1000U);
    EXPECT_EQ(drawn["updates"].back(), count);
    double again = 0;
    for (size_t i = 0; i < values.size(); ++i)
      again += values[i] * static_cast<double>(std::min<int64_t>(together, count - static_cast<int64_t>(i) * together));
    EXPECT_NEAR(again, sum, 1e-6);
  }
}

TEST(Report, MapsAndStatisticsOfEachMoment) {
  const TrainingReport report = with_maps();
  const std::string html = render_report(report);
  const Json data = data_of(html);
  EXPECT_EQ(data["sentences"][0]["updates"], Json::parse("[0, 10, 25]"));
  ASSERT_EQ(data["groups"].size(), 2U);
  for (size_t kind = 0; kind < 2; ++kind) {
    const Json& group = data["groups"][kind];
    const auto layers = group["layers"].get<int64_t>(), heads = group["heads"].get<int64_t>(),
               queries = group["queries"].get<int64_t>(), keys = group["keys"].get<int64_t>();
    ASSERT_EQ(group["moments"].size(), 3U);
    for (size_t m = 0; m < 3; ++m) {
      const Tensor& w = report.sentences[0].moments[m].weights[kind];
      ASSERT_EQ(w.shape(), (Dims{layers, heads, queries, keys}));
      std::string bytes = block_of(html, group["moments"][m].get<int>());
      size_t at = 0;
      const auto figures = part<float>(bytes, &at, static_cast<size_t>(6 * layers * heads));
      const Rows rows =
          unpacked(bytes.substr(at), static_cast<size_t>(layers * heads * queries), static_cast<size_t>(keys), false);
      size_t row = 0;
      for (int64_t l = 0; l < layers; ++l)
        for (int64_t h = 0; h < heads; ++h) {
          const HeadStatistics s = statistics(w.select(0, l).select(0, h));
          const float* given = figures.data() + 6 * (l * heads + h);
          EXPECT_FLOAT_EQ(given[0], static_cast<float>(s.diagonal_mass));
          EXPECT_FLOAT_EQ(given[1], static_cast<float>(s.previous_mass));
          EXPECT_FLOAT_EQ(given[4], static_cast<float>(s.entropy));
          EXPECT_FLOAT_EQ(given[5], static_cast<float>(s.mean_distance));
          for (int64_t i = 0; i < queries; ++i, ++row)
            for (int64_t j = 0; j < keys; ++j)
              EXPECT_NEAR(rows.weights[row][static_cast<size_t>(j)], w.at<double>(l, h, i, j), 0.006);
        }
    }
  }
}

TEST(Report, TextsAreData) {
  TrainingReport report = with_maps();
  const std::string hostile = "</script><script>alert(1)</script>\x01\"";
  report.title = report.text = report.sentences[0].text = hostile;
  report.sentences[0].kinds[0].query_labels[1] = report.sentences[0].kinds[0].key_labels[2] = hostile;
  report.facts = {{hostile, hostile}};
  report.figures = {{hostile, hostile, {{hostile, {{1, 1, 1}}}}}};
  const std::string html = render_report(report);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  const Json data = data_of(html);
  EXPECT_EQ(data["title"], "</script><script>alert(1)</script>\\x01\"");
  EXPECT_EQ(data["groups"][0]["queryLabels"][1], data["title"]);
}

TEST(Report, RefusesWhatDoesNotFit) {
  TrainingReport report = with_maps();
  report.sentences[0].moments[1].update = -1;
  EXPECT_NE(refusal(report).find("go back from update 0 to -1"), std::string::npos);
  report = with_maps();
  report.sentences[0].moments[1].weights.pop_back();
  EXPECT_NE(refusal(report).find("weights of 1 kinds at update 10, the sentence has 2"), std::string::npos);
  report = with_maps();
  report.sentences[0].moments[2].weights[1] = weights(1, 2, 4, 0.5);
  EXPECT_NE(refusal(report).find("at update 25"), std::string::npos);
  report = with_maps();
  report.sentences[0].kinds[0].key_labels.pop_back();
  EXPECT_NE(refusal(report), "(no error)");
  report = with_maps();
  report.sentences[0].moments.resize(1);
  report.sentences[0].moments[0].weights[1] = weights(1, 1, 256, 0.9);
  EXPECT_NE(refusal(report).find("256 keys"), std::string::npos);
  report = {.figures = {{"f", "", {{"c", {{2, 0, 1}, {1, 0, 1}}}}}}};
  EXPECT_NE(refusal(report).find("the points of c go back"), std::string::npos);
}

TEST(Report, NothingYet) {
  const Json data = data_of(render_report({}));
  EXPECT_EQ(data["figures"], Json::array());
  EXPECT_EQ(data["sentences"], Json::array());
}

}  // namespace
}  // namespace heed::inline v0
