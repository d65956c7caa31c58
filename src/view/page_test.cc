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

TEST(Page, JsonHasWhatThePageHas) {
  Page page = page_of(falling(5, 60, 0.8));
  page.title = "</script>";
  const std::string html = render_html(page);
  Json json = Json::parse(render_json(page));
  const std::vector<std::string> blocks = json.at("blocks");
  ASSERT_FALSE(blocks.empty());
  for (size_t n = 0; n < blocks.size(); ++n)
    EXPECT_NE(html.find("id=\"block" + std::to_string(n) + "\">" + blocks[n] + "<"), html.npos) << n;
  json.erase("blocks");
  EXPECT_EQ(json, data_of(html));
}

TEST(Page, OddRowsAreShownAndFlagged) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor w = Tensor::from<double>({0.5, 0.5, 0.2, 0.2, nan, 1, 0, 0, -0.5, 1.5, -inf, 0}, {6, 2});
  const std::string html = render_html(page_of(w));
  const Rows rows = unpacked(block_of(html, 0), 6, 2, true);
  EXPECT_TRUE(rows.has_kinds);
  EXPECT_NEAR(rows.kept[1], 0.4, 1e-6);
  EXPECT_TRUE(std::isnan(rows.weights[2][0]));
  EXPECT_EQ(rows.weights[2][1], 1);
  EXPECT_EQ(rows.kept[3], 0);
  EXPECT_NEAR(rows.weights[4][0], -0.5, 1e-4);
  EXPECT_NEAR(rows.weights[4][1], 1.5, 1e-4);
  EXPECT_NEAR(rows.kept[4], 2, 1e-6);  // of sizes
  EXPECT_TRUE(std::isnan(rows.weights[5][0]));
  for (const float dropped : rows.dropped) EXPECT_NEAR(dropped, 0, 1e-6);
  EXPECT_EQ(data_of(html)["groups"][0]["notes"]["0"],
            Json::parse(R"~(["1 row does not sum to 1 (query 2 sums to 0.4)", "1 row is all zero",
                            "2 weights are not finite", "1 weight is below 0"])~"));
}

// Of a long row the largest in size are kept, whatever their sign, and what is not finite before them.
TEST(Page, LongOddRowsKeepTheLargestSizes) {
  const int64_t keys = 700;
  const Tensor w = falling(9, keys, 0.8);
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t j = 0; j < keys; j += 2) w.at<double>(i, j) *= -1;
  w.at<double>(3, 650) = std::numeric_limits<double>::quiet_NaN();
  const Rows rows = unpacked(block_of(render_html(page_of(w)), 0), 9, keys, false);
  for (int64_t i = 0; i < 9; ++i) {
    double kept = 0, smallest = 1, largest_left = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double got = rows.weights[static_cast<size_t>(i)][static_cast<size_t>(j)], is = w.at<double>(i, j);
      ASSERT_EQ(std::isnan(got), std::isnan(is)) << i << ' ' << j;
      if (std::isnan(is)) continue;
      if (got == 0) {
        largest_left = std::max(largest_left, std::abs(is));
        continue;
      }
      EXPECT_NEAR(got, is, 0.0012);
      kept += std::abs(is);
      smallest = std::min(smallest, std::abs(is));
    }
    EXPECT_GE(smallest, largest_left);
    EXPECT_NEAR(rows.kept[static_cast<size_t>(i)], kept, 1e-6);
    EXPECT_GT(kept, i == 3 ? 0.9 : 0.995);
  }
}

// What most pages hold costs nothing more.
TEST(Page, UsualRowsHaveNoKinds) {
  const std::string html = render_html(page_of(falling(5, 48, 0.8)));
  EXPECT_FALSE(unpacked(block_of(html, 0), 5, 48, true).has_kinds);
}

TEST(Page, OpensOnWhatItIsTold) {
  Page page = page_of(falling(12, 3, 0.5).reshape({2, 2, 3, 3}));
  EXPECT_EQ(data_of(render_html(page))["opens"],
            Json::parse(R"~({"asked": false, "group": 0, "heads": [], "query": -1})~"));
  page.opening = {.heads = {3, 1}, .query = 2};
  EXPECT_EQ(data_of(render_html(page))["opens"],
            Json::parse(R"~({"asked": true, "group": 0, "heads": [3, 1], "query": 2})~"));
  page.opening.heads = {4};
  EXPECT_NE(refusal(page).find("it opens on head 4, which is not in 0..3"), std::string::npos);
  page.opening = {.group = 1};
  EXPECT_NE(refusal(page).find("group 1, which is not in 0..0"), std::string::npos);
  page.opening = {.query = 3};
  EXPECT_NE(refusal(page).find("query 3, which is not in 0..2"), std::string::npos);
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

TEST(Page, WithAModelItMayRunWebAssemblyAndNoMore) {
  Page page = page_of(falling(2, 2, 0.5));
  const std::string plain = render_html(page);
  page.live = LiveModel{.files = {{"config.json", "{}"}, {"model.safetensors", "abcde"}},
                        .kind = LiveKind::continues,
                        .generate = 7,
                        .notice = "theirs"};
  const std::string html = render_html(page);
  std::string policy = between(html, "Content-Security-Policy\" content=\"", "\"");
  const auto take = [&](const std::string& what, const std::string& instead) {
    const size_t at = policy.find(what);
    ASSERT_NE(at, std::string::npos) << policy;
    policy.replace(at, what.size(), instead);
  };
  take(" 'wasm-unsafe-eval'; worker-src blob:", "");
  take("heed-worker", "'none'");
  EXPECT_EQ(policy, between(plain, "Content-Security-Policy\" content=\"", "\""));
  const Json live = data_of(html)["live"];
  EXPECT_EQ(live["provider"], "module");
  EXPECT_EQ(live["kind"], "continues");
  EXPECT_EQ(live["generate"], 7);
  EXPECT_EQ(live["notice"], "theirs");
  EXPECT_EQ(live["files"][0][0], "config.json");
  EXPECT_EQ(block_of(html, live["files"][0][1]), "{}");
  EXPECT_EQ(block_of(html, live["files"][1][1]), "acebd");
  EXPECT_EQ(block_of(html, live["module"]).substr(0, 4), std::string("\0asm", 4));
  EXPECT_FALSE(data_of(plain).contains("live"));
}

TEST(Page, DataAreThoseOfThePage) {
  Page page = page_of(falling(5, 700, 0.99));
  page.title = "\u00E9<";
  const std::string html = render_html(page);
  const PageData data = page_data(page);
  EXPECT_EQ(Json::parse(data.json), data_of(html));
  ASSERT_EQ(data.blocks.size(), 1u);
  EXPECT_EQ(data.blocks[0], block_of(html, 0));
  EXPECT_TRUE(std::all_of(data.json.begin(), data.json.end(), [](char c) { return static_cast<signed char>(c) > 0; }));
  EXPECT_THROW(page_data(Page{}), ShapeError);
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

TEST(Page, TokensMayBePatchesOfAPicture) {
  Page page = page_of(falling(5, 5, 0.5));
  PageGroup& group = page.groups[0];
  group.picture = Tensor::empty({4, 6, 3}, DType::u8);
  for (int64_t i = 0; i < 72; ++i) group.picture.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  group.picture_rows = group.picture_columns = 2;
  const std::string html = render_html(page);
  const Json picture = data_of(html)["groups"][0]["picture"];
  const std::string pixels = block_of(html, picture["block"]);
  ASSERT_EQ(pixels.size(), 72);
  EXPECT_EQ(pixels[71], 71);
  EXPECT_EQ(picture["height"], 4);
  EXPECT_EQ(picture["width"], 6);
  EXPECT_EQ(picture["rows"], 2);
  group.picture_columns = 3;
  EXPECT_NE(refusal(page).find("2 x 3 patches in a picture (4, 6, 3), with 5 queries and 5 keys"), std::string::npos);
  group.picture_columns = 0;
  EXPECT_NE(refusal(page).find("2 x 0 patches"), std::string::npos);
  group.picture = Tensor::zeros({4, 6});
  EXPECT_NE(refusal(page).find("a picture (4, 6) of f32; pass (height, width, 3) of u8"), std::string::npos);
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
