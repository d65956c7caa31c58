#include "recipe/training_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

std::string refusal(const std::string& list, int64_t count) {
  try {
    parse_line_numbers("--html-lines", list, count, "the data");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(TrainingReport, NumbersOfLines) {
  EXPECT_TRUE(parse_line_numbers("", "", 0, "").empty());
  EXPECT_EQ(parse_line_numbers("", "3,17,3", 17, ""), (std::vector<int64_t>{3, 17, 3}));
  for (const char* list : {"0", "-1", "18", "99999999999999999999", "1,,2", "1,", ",1", "1 2", "a", "1.5"})
    EXPECT_NE(refusal(list, 17), "(no error)") << list;
  EXPECT_NE(refusal("18", 17).find("the data has lines 1..17"), std::string::npos);
}

TEST(TrainingReport, SentencesOfModerateLengthComeFirst) {
  TextPairs texts;
  SentencePairs ids;
  for (const size_t length : {30U, 2U, 7U, 0U, 24U, 9U, 8U}) {
    texts.source.push_back(std::to_string(length));
    texts.target.emplace_back("t");
    ids.source.emplace_back(length, 5);
    ids.target.emplace_back(length, 6);
  }
  std::vector<WatchedSentence> watched = watched_pairs(texts, ids, {});
  ASSERT_EQ(watched.size(), 3U);
  EXPECT_EQ(watched[0].source.size(), 7U);
  EXPECT_EQ(watched[1].source.size(), 24U);
  EXPECT_EQ(watched[2].target.size(), 9U);
  watched = watched_pairs(texts, ids, {2, 1});
  ASSERT_EQ(watched.size(), 2U);
  EXPECT_EQ(watched[0].source.size(), 2U);
  EXPECT_EQ(watched[1].text, "30 \u2192 t");
  // None of moderate length: those that are not empty.
  ids.source = {{}, {1, 2}, {3}};
  ids.target = {{4}, {4}, {4}};
  watched = watched_pairs(texts, ids, {});
  ASSERT_EQ(watched.size(), 2U);
  EXPECT_EQ(watched[0].source.size(), 2U);
  // A long one is cut, and says so.
  ids.source = ids.target = {std::vector<int32_t>(200, 1)};
  watched = watched_pairs(texts, ids, {1});
  EXPECT_EQ(std::ssize(watched[0].source), kMostWatchedTokens - 1);
  EXPECT_NE(watched[0].text.find("first tokens"), std::string::npos);
}

class Maps : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "heed-maps-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    path_ = root_ + "/" + kAttentionFile;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static Tensor weights(double sharp) {  // (2, 3, 4, 5), rows sum to 1; the first row of each head sees nothing
    const Tensor w = Tensor::zeros({2, 3, 4, 5});
    for (int64_t l = 0; l < 2; ++l)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t i = 1; i < 4; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < 5; ++j) sum += std::exp(sharp * static_cast<double>((l + h + i * j) % 5));
          for (int64_t j = 0; j < 5; ++j)
            w.at<float>(l, h, i, j) =
                static_cast<float>(std::exp(sharp * static_cast<double>((l + h + i * j) % 5)) / sum);
        }
    return w;
  }
  static std::vector<int64_t> updates(const MapsOverTime& maps, size_t sentence) {
    std::vector<int64_t> all;
    for (const MapsOverTime::Moment& moment : maps.tracks()[sentence].moments) all.push_back(moment.update);
    return all;
  }
  static std::string refusal(const std::string& path, const std::vector<WatchedSentence>& sentences, size_t kinds) {
    try {
      const MapsOverTime maps(path, sentences, kinds);
    } catch (const Error& error) {
      return error.what();
    }
    return "(no error)";
  }

  std::string root_, path_;
  const std::vector<WatchedSentence> sentences_ = {{{1, 2}, {3}, "a"}, {{4}, {5, 6}, "b"}};
};

TEST_F(Maps, AreTheSameAfterAFile) {
  MapsOverTime maps(path_, sentences_, 2);
  for (const int64_t update : {0, 100, 20})
    for (size_t s = 0; s < 2; ++s)
      maps.add(s, update, {weights(0.01 * static_cast<double>(update)), weights(1).select(0, 0).reshape({1, 3, 4, 5})});
  EXPECT_EQ(updates(maps, 0), (std::vector<int64_t>{0, 20, 100}));
  write_file_atomically(path_, maps.file());
  // The other way round, and with a new one: each sentence finds its own.
  const MapsOverTime again(path_, {sentences_[1], {{9}, {9}, "new"}, sentences_[0]}, 2);
  EXPECT_EQ(updates(again, 0), (std::vector<int64_t>{0, 20, 100}));
  EXPECT_EQ(updates(again, 1), std::vector<int64_t>{});
  for (size_t m = 0; m < 3; ++m)
    for (size_t kind = 0; kind < 2; ++kind) {
      const Tensor& a = maps.tracks()[0].moments[m].levels[kind];
      const Tensor& b = again.tracks()[2].moments[m].levels[kind];
      ASSERT_EQ(a.shape(), b.shape());
      EXPECT_TRUE(std::equal(a.span<uint8_t>().begin(), a.span<uint8_t>().end(), b.span<uint8_t>().begin()));
    }
}

TEST_F(Maps, LevelsAreRootsOfWeights) {
  MapsOverTime maps(path_, sentences_, 1);
  const Tensor w = weights(0.7);
  maps.add(0, 5, {w});
  const Tensor& levels = maps.tracks()[0].moments[0].levels[0];
  for (int64_t l = 0; l < 2; ++l)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 4; ++i) {
        float largest = 0, sum = 0;
        for (int64_t j = 0; j < 5; ++j) {
          largest = std::max(largest, w.at<float>(l, h, i, j));
          sum += std::pow(static_cast<float>(levels.at<uint8_t>(l, h, i, j)) / 255, 2.0F);
        }
        for (int64_t j = 0; j < 5; ++j)
          EXPECT_NEAR(sum > 0 ? std::pow(levels.at<uint8_t>(l, h, i, j) / 255.0, 2) / sum : 0, w.at<float>(l, h, i, j),
                      i > 0 ? 0.006 * largest : 0);
      }
}

TEST_F(Maps, StayWithinTheirBound) {
  MapsOverTime maps(path_, sentences_, 1);
  for (int64_t update = 0; update <= 1000; update += 10) {
    for (size_t s = 0; s < 2; ++s) maps.add(s, update, {weights(1)});
    maps.thin(2 * 8 * 120);  // eight moments of both sentences
  }
  for (size_t s = 0; s < 2; ++s) {
    const std::vector<int64_t> kept = updates(maps, s);
    ASSERT_EQ(kept.size(), 8U);
    EXPECT_EQ(kept.front(), 0);
    EXPECT_EQ(kept.back(), 1000);
    for (size_t i = 1; i < kept.size(); ++i) EXPECT_LE(kept[i] - kept[i - 1], 300) << "evenly, more or less";
  }
  maps.thin(1);
  EXPECT_EQ(updates(maps, 0), (std::vector<int64_t>{0, 1000}));
}

TEST_F(Maps, BrokenFilesAreRefused) {
  MapsOverTime maps(path_, sentences_, 2);
  maps.add(0, 3, {weights(1), weights(2)});
  write_file_atomically(path_, maps.file());
  EXPECT_EQ(refusal(path_, sentences_, 2), "(no error)");
  EXPECT_NE(refusal(path_, sentences_, 1).find("is no map; remove it"), std::string::npos);
  EXPECT_NE(refusal(path_, sentences_, 3).find("maps of update 3 are missing"), std::string::npos);
  const std::string sentences = R"({"sentences":[[[1,2],[3]]]})";
  const auto write = [&](const std::string& name, const Tensor& tensor, const std::string& json) {
    write_file_atomically(path_, [&](FileWriter& file) {
      write_safetensors(file, {{name, tensor}}, {{"sentences", json}});
    });
  };
  const Tensor levels = Tensor::zeros({1, 1, 2, 2}, DType::u8);
  write("0/1/0", levels, sentences);
  EXPECT_EQ(refusal(path_, sentences_, 1), "(no error)");
  for (const char* name : {"1/1/0", "0/-1/0", "0/1/1", "0/1", "0/1/0/", "x", "0/99999999999999999999/0"}) {
    write(name, levels, sentences);
    EXPECT_NE(refusal(path_, sentences_, 1).find(path_), std::string::npos) << name;
  }
  write("0/1/0", Tensor::zeros({2, 2}, DType::u8), sentences);
  EXPECT_NE(refusal(path_, sentences_, 1), "(no error)");
  write("0/1/0", Tensor::zeros({1, 1, 2, 2}), sentences);
  EXPECT_NE(refusal(path_, sentences_, 1), "(no error)");
  for (const char* json :
       {"", "[]", "{", R"({"sentences":3})", R"({"sentences":[[1]]})", R"({"sentences":[["a","b"]]})"}) {
    write("0/1/0", levels, json);
    EXPECT_NE(refusal(path_, sentences_, 1).find("remove it"), std::string::npos) << json;
  }
}

}  // namespace
}  // namespace heed::inline v0
