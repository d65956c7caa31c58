#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/view.h"
#include "view/testing.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

Page page_of(const Tensor& weights) {
  Page page;
  page.groups.emplace_back().map.weights = weights;
  return page;
}

// Rows that fall by `factor` from key to key, wherever row i begins: (Lq, Lk).
Tensor falling(int64_t queries, int64_t keys, double factor) {
  const Tensor w = Tensor::empty({queries, keys}, DType::f64);
  for (int64_t i = 0; i < queries; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += w.at<double>(i, j) = std::pow(factor, (j + 7 * i) % keys);
    for (int64_t j = 0; j < keys; ++j) w.at<double>(i, j) /= sum;
  }
  return w;
}

std::string refusal(const Page& page, const PageOptions& options = {}) {
  try {
    render_html(page, options);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Page, ShortRowsAreWhole) {
  const Tensor w = falling(5, 48, 0.8);
  const std::string html = render_html(page_of(w));
  EXPECT_TRUE(data_of(html)["groups"][0]["whole"]);
  const Rows rows = unpacked(block_of(html, 0), 5, 48, true);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(rows.kept[static_cast<size_t>(i)], 1, 1e-6);
    EXPECT_NEAR(rows.dropped[static_cast<size_t>(i)], 0, 1e-6);
    for (int64_t j = 0; j < 48; ++j)
      EXPECT_NEAR(rows.weights[static_cast<size_t>(i)][static_cast<size_t>(j)], w.at<double>(i, j), 1e-5);
  }
}

TEST(Page, LongRowsKeepTheLargestWeights) {
  for (const double factor : {0.5, 0.99}) {  // the mass, or the number of keys, ends a row
    const int64_t keys = 700;
    const Tensor w = falling(9, keys, factor);
    const std::string html = render_html(page_of(w));
    EXPECT_FALSE(data_of(html)["groups"][0]["whole"]);
    const Rows rows = unpacked(block_of(html, 0), 9, keys, false);
    for (int64_t i = 0; i < 9; ++i) {
      const std::vector<double>& row = rows.weights[static_cast<size_t>(i)];
      double kept = 0, smallest = 1, largest_left = 0;
      int count = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const double got = row[static_cast<size_t>(j)], is = w.at<double>(i, j);
        if (got == 0) {
          largest_left = std::max(largest_left, is);
          continue;
        }
        ++count;
        kept += is;
        smallest = std::min(smallest, is);
        EXPECT_NEAR(got, is, 0.006 * w.at<double>(i, (keys - 7 * i % keys) % keys));
      }
      EXPECT_EQ(count, factor == 0.5 ? 8 : 48);  // 1 - 2^-8 is the first above 0.995
      EXPECT_GE(smallest, largest_left);
      EXPECT_NEAR(rows.kept[static_cast<size_t>(i)], kept, 1e-6);
      EXPECT_NEAR(rows.kept[static_cast<size_t>(i)] + rows.dropped[static_cast<size_t>(i)], 1, 1e-6);
    }
  }
}

TEST(Page, OddRowsAreFlagged) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor w = Tensor::from<double>({0.5, 0.5, 0.2, 0.2, nan, 1, 0, 0, -0.5, 1.5}, {5, 2});
  const std::string html = render_html(page_of(w));
  const Rows rows = unpacked(block_of(html, 0), 5, 2, true);
  EXPECT_NEAR(rows.kept[1], 0.4, 1e-6);
  EXPECT_TRUE(std::isnan(rows.dropped[2]));
  EXPECT_EQ(rows.weights[2], (std::vector<double>{0, 1}));
  EXPECT_EQ(rows.kept[3], 0);
  EXPECT_TRUE(std::isnan(rows.dropped[4]));
  EXPECT_EQ(data_of(html)["groups"][0]["notes"]["0"],
            Json::parse(R"~(["1 row does not sum to 1 (query 1 sums to 0.4)", "1 row is all zero",
                            "1 weight is not finite", "1 weight is below 0"])~"));
}

TEST(Page, LabelsAreData) {
  Page page = page_of(falling(2, 2, 0.5));
  const std::string evil = "</script><script>alert(1)</script><!--\"'&\\ \u2028";
  page.title = page.text = page.groups[0].name = page.groups[0].note = page.groups[0].map.title = evil;
  page.groups[0].map.query_labels = {evil, std::string("a\0b", 3)};
  page.groups[0].map.key_labels = {"\xff\xfe", std::string(10000, 'x')};
  page.steps = {{.token = evil, .candidates = {{evil, 0.5}}}};
  const std::string html = render_html(page), plain = render_html(page_of(falling(2, 2, 0.5)));
  const auto count = [](const std::string& text, const std::string& what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  for (const char* what : {"<script", "</script", "<!--", "alert(1)<"})
    EXPECT_EQ(count(html, what), count(plain, what));
  const Json data = data_of(html);
  EXPECT_EQ(data["title"], "</script><script>alert(1)</script><!--\"'&\\ \\u{2028}");
  EXPECT_EQ(data["groups"][0]["queryLabels"][1], "a\\x00b");
  EXPECT_EQ(data["groups"][0]["keyLabels"][0], "\uFFFD\uFFFD");
  EXPECT_EQ(data["groups"][0]["keyLabels"][1].get<std::string>().size(), 10000);
}

TEST(Page, IsOneDocumentWithItsPolicy) {
  const std::string html = render_html(page_of(falling(2, 2, 0.5)));
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  const std::string policy = between(html, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'sha256-")) << policy;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(html.find("@STYLE@"), std::string::npos);
  EXPECT_EQ(html.find("@SCRIPT_HASH@"), std::string::npos);
  EXPECT_EQ(html.find("http://"), html.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(html.find("https://"), std::string::npos);
}

TEST(Page, RanksAndSizes) {
  const std::string one = render_html(page_of(falling(3, 3, 0.5)));
  EXPECT_EQ(data_of(one)["groups"][0]["layers"], 1);
  const std::string four = render_html(page_of(falling(12, 3, 0.5).reshape({2, 2, 3, 3})));
  EXPECT_EQ(data_of(four)["groups"][0]["layers"], 2);
  EXPECT_EQ(data_of(four)["groups"][0]["statistics"].size(), 4);
  EXPECT_EQ(data_of(four)["groups"][0]["weights"], Json::parse("[0, 1]"));
  EXPECT_EQ(data_of(render_html(page_of(Tensor::zeros({0, 0}))))["groups"][0]["queries"], 0);
}

TEST(Page, Refusals) {
  EXPECT_EQ(refusal({}), "render_html: the page has no groups; pass one map at least");
  const Tensor w = falling(2, 3, 0.5);
  EXPECT_NE(refusal(page_of(Tensor::zeros({2}))).find("(2) are no map"), std::string::npos);
  Page page = page_of(w);
  page.groups[0].map.query_labels = {"a"};
  EXPECT_EQ(refusal(page), "render_html: 1 query labels for 2 queries; pass one for each, or none");
  page = page_of(w);
  page.groups[0].key_words = {0, 1};
  EXPECT_EQ(refusal(page), "render_html: words of 2 keys for 3; pass one for each, or none");
  page.groups[0].key_words = {0, 2, 1};
  EXPECT_NE(refusal(page).find("the words of keys go back"), std::string::npos);
  page = page_of(w);
  page.groups[0].value_labels = {"a"};
  EXPECT_NE(refusal(page).find("1 value labels for 3 keys"), std::string::npos);
  page = page_of(w);
  page.groups[0].vectors = {{Tensor::zeros({1, 2, 4}), Tensor::zeros({1, 3, 5}), Tensor::zeros({1, 3, 5})}};
  EXPECT_NE(refusal(page).find("vectors (1, 2, 4), (1, 3, 5), (1, 3, 5) for 1 heads of 2 x 3"), std::string::npos);
  page.groups[0].vectors.resize(2);
  EXPECT_NE(refusal(page).find("vectors of 2 layers for 1"), std::string::npos);
  page = page_of(w);
  page.groups[0].mask = Tensor::zeros({2, 3});
  EXPECT_NE(refusal(page).find("mask (2, 3) of f32"), std::string::npos);
  page = page_of(w);
  page.steps.resize(2);
  page.groups[0].step_keys = StepKeys::input;
  EXPECT_EQ(refusal(page), "(no error)");
  page.groups[0].first_step = 1;
  EXPECT_NE(refusal(page).find("2 steps from row 1 of 2"), std::string::npos);
  EXPECT_NE(refusal(page_of(w), {.mass = 0}).find("mass 0 is not in (0, 1]"), std::string::npos);
  EXPECT_NE(refusal(page_of(w), {.keys = 256}).find("keys 256 is not in 1..255"), std::string::npos);
}

}  // namespace
}  // namespace heed::inline v0
