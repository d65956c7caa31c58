#include "heed/token_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "train/testing.h"

namespace heed::inline v0 {
namespace {

class TokenFiles : public TrainTest {
 protected:
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string write(const std::string& name, const SentencePairs& pairs, int64_t pieces = 300) const {
    write_file_atomically(path(name), [&](FileWriter& file) {
      TokenWriter writer(file, /*text=*/false, pieces);
      for (size_t i = 0; i < pairs.source.size(); ++i) writer.write_pair(pairs.source[i], pairs.target[i]);
      const TokenFileInfo made = writer.finish({.bytes = 9, .characters = 5, .vocabulary = "v\n\"é\x01"});
      EXPECT_EQ(made.pairs, std::ssize(pairs.source));
    });
    return path(name);
  }
  std::string write_text(const std::string& name, const std::vector<int32_t>& text, int64_t pieces = 300) const {
    write_file_atomically(path(name), [&](FileWriter& file) {
      TokenWriter writer(file, /*text=*/true, pieces);
      for (size_t begin = 0, size = 1; begin < text.size(); begin += size, size = size * 7 % 1009)
        writer.write_text(std::span(text).subspan(begin, std::min(size, text.size() - begin)));
      writer.finish({});
    });
    return path(name);
  }

  void put(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  static void expect_pairs(PairCorpus& file, const SentencePairs& pairs) {
    ASSERT_EQ(file.size(), std::ssize(pairs.source));
    const std::vector<PairCorpus::Lengths> lengths = file.lengths(0, file.size());
    for (size_t i = 0; i < pairs.source.size(); ++i) {
      const PairCorpus::Pair pair = file.read(static_cast<int64_t>(i));
      ASSERT_EQ(pair.source, pairs.source[i]) << i;
      ASSERT_EQ(pair.target, pairs.target[i]) << i;
      ASSERT_EQ(lengths[i].source, std::ssize(pair.source));
      ASSERT_EQ(lengths[i].target, std::ssize(pair.target));
    }
  }

  // Everything that reading may find, or how it was refused.
  static std::string outcome(const std::string& path) {
    try {
      const TokenFile file(path);
      if (file.info().text) {
        const auto text = file.text();
        text->read(0, text->size());
      } else {
        const auto pairs = file.pairs();
        pairs->lengths(0, pairs->size());
        for (int64_t i = 0; i < pairs->size(); ++i) pairs->read(i);
      }
      return "";
    } catch (const FormatError& e) {
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
      return e.what();
    }
  }
};

SentencePairs random_pairs(int64_t count, int32_t pieces) {
  std::mt19937 generator(5);
  SentencePairs pairs;
  for (auto* side : {&pairs.source, &pairs.target})
    for (int64_t i = 0; i < count; ++i) {
      side->emplace_back(generator() % 9);  // empty ones, too
      for (int32_t& id : side->back()) id = static_cast<int32_t>(generator() % static_cast<uint32_t>(pieces));
    }
  return pairs;
}

TEST_F(TokenFiles, GiveBackEveryPairFromAnywhere) {
  for (const int64_t count : {0, 1, 16383, 16384, 16385, 40001})
    for (const int32_t pieces : {300, 65536, 65537}) {
      const SentencePairs pairs = random_pairs(count, pieces);
      const TokenFile file(write("pairs", pairs, pieces));
      EXPECT_FALSE(file.info().text);
      EXPECT_EQ(file.info().bytes, 9);
      EXPECT_EQ(file.info().vocabulary, "v\n\"é\x01");
      expect_pairs(*file.pairs(), pairs);
      if (count < 3) continue;
      const std::vector<PairCorpus::Lengths> some = file.pairs()->lengths(count - 3, count);
      ASSERT_EQ(some.size(), 3u);
      EXPECT_EQ(some[2].target, std::ssize(pairs.target.back()));
    }
}

TEST_F(TokenFiles, GiveBackAText) {
  for (const int64_t count : {0, 1, 65535, 65536, 65537, 200000})
    for (const int32_t pieces : {300, 70000}) {
      std::vector<int32_t> text;
      for (int64_t i = 0; i < count; ++i) text.push_back(static_cast<int32_t>(i * 7919 % pieces));
      const TokenFile file(write_text("text", text, pieces));
      const auto tokens = file.text();
      ASSERT_EQ(tokens->size(), count);
      EXPECT_EQ(tokens->read(0, count), text);
      if (count < 70000) continue;
      EXPECT_EQ(tokens->read(65530, 65540), std::vector<int32_t>(text.begin() + 65530, text.begin() + 65540));
    }
}

TEST_F(TokenFiles, AreAFunctionOfWhatTheyHold) {
  const SentencePairs pairs = random_pairs(500, 300);
  const std::string one = read_file(write("one", pairs));
  EXPECT_EQ(read_file(write("two", pairs)), one);
  SentencePairs others = pairs;
  others.target.back().push_back(7);
  EXPECT_NE(TokenFile(write("others", others)).pairs()->fingerprint(), TokenFile(path("one")).pairs()->fingerprint());
  EXPECT_EQ(TokenFile(path("two")).pairs()->fingerprint(), TokenFile(path("one")).pairs()->fingerprint());
}

TEST_F(TokenFiles, TellOneKindFromTheOtherAndFromOtherFiles) {
  const TokenFile pairs(write("pairs", random_pairs(3, 300))), text(write_text("text", {1, 2, 3}));
  EXPECT_THROW(pairs.text(), FormatError);
  EXPECT_THROW(text.pairs(), FormatError);
  EXPECT_TRUE(is_token_file(path("pairs")));
  write_file_atomically(path("plain"), "a\tb\n");
  write_file_atomically(path("empty"), "");
  for (const char* other : {"plain", "empty", "none", ""}) EXPECT_FALSE(is_token_file(path(other))) << other;
  EXPECT_NE(outcome(path("plain")).find("not tokens that heed prepared"), std::string::npos);
  EXPECT_THROW(TokenFile(path("none")), IoError);
}

TEST_F(TokenFiles, RefuseEveryCut) {
  for (const std::string& whole : {write("pairs", random_pairs(40, 300)), write_text("text", {1, 2, 3, 4, 5})}) {
    const std::string bytes = read_file(whole);
    for (size_t size = 0; size < bytes.size(); ++size) {
      put("cut", bytes.substr(0, size));
      ASSERT_NE(outcome(path("cut")), "") << size;
    }
  }
}

TEST_F(TokenFiles, RefuseEveryFlippedByte) {
  for (const std::string& whole : {write("pairs", random_pairs(40, 300)), write_text("text", {1, 2, 3, 4, 5})}) {
    const std::string bytes = read_file(whole);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      put("damaged", damaged);
      // A byte that only fills up, in front of the ends or in the trailer, holds nothing.
      ASSERT_TRUE(!outcome(path("damaged")).empty() || bytes[i] == 0) << i;
    }
  }
}

// Whoever can compute checksums can write anything.
TEST_F(TokenFiles, SurviveWhateverTheListAndItsChecksumsSay) {
  const std::string bytes = read_file(write("pairs", random_pairs(40, 300)));
  uint64_t list = 0;
  std::memcpy(&list, bytes.data() + bytes.size() - 32, sizeof list);
  std::mt19937_64 generator(11);
  int refused = 0;
  constexpr int kTries = 2000;
  for (int i = 0; i < kTries; ++i) {
    std::string hostile = bytes;
    const size_t body = hostile.size() - 32 - list, at = list + generator() % body;
    const uint64_t value = i % 3 == 0 ? generator() : i % 3 == 1 ? ~uint64_t{0} >> generator() % 64 : generator() % 9;
    std::memcpy(hostile.data() + at, &value, std::min<size_t>(sizeof value, hostile.size() - 32 - at));
    const uint32_t sum = checksum_of(std::string_view(hostile).substr(list, body)).crc32;
    std::memcpy(hostile.data() + hostile.size() - 16, &sum, sizeof sum);
    put("hostile", hostile);
    refused += !outcome(path("hostile")).empty();
  }
  EXPECT_GT(refused, kTries / 2);
}

TEST_F(TokenFiles, ThatAreCutWhileTheyAreReadAreRefused) {
  const SentencePairs pairs = random_pairs(20000, 300);
  const TokenFile file(write("pairs", pairs));
  const auto open = file.pairs();
  open->read(0);
  std::filesystem::resize_file(path("pairs"), 1000);
  EXPECT_THROW(open->read(16000), FormatError);
  EXPECT_THROW(open->read(19999), FormatError);
  EXPECT_THROW(open->lengths(0, 20000), FormatError);
}

TEST_F(TokenFiles, TrainAsWhatIsInMemory) {
  const SentencePairs pairs = reversing(200, 8, 12, 3);
  const std::vector<int32_t> text = counting(3000, 3);
  TrainOptions options = quick();
  options.max_updates = 6;
  for (const bool from_file : {false, true}) {
    const std::string name = from_file ? "file" : "memory";
    manual_seed(3);
    Transformer model(tiny());
    manual_seed(3);
    LanguageModel writer(tiny_language_model());
    TrainOptions of_text = quick_text();
    of_text.max_updates = 4;
    if (from_file) {
      train(model, *TokenFile(write("pairs", pairs)).pairs(), {}, options, directory(name));
      train(writer, *TokenFile(write_text("text", text)).text(), {}, of_text, directory(name + "-text"));
    } else {
      train(model, pairs, {}, options, directory(name));
      train(writer, text, {}, of_text, directory(name + "-text"));
    }
  }
  EXPECT_TRUE(model_bytes(directory("memory")) == model_bytes(directory("file")));
  EXPECT_TRUE(model_bytes(directory("memory-text")) == model_bytes(directory("file-text")));
}

}  // namespace
}  // namespace heed::inline v0
