#include "core/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/testing.h"
#include "tests/allocations.h"

namespace heed {
namespace {

class Gguf : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  GgufFile open(const std::string& bytes) const {
    write_anew(path_, bytes);
    return GgufFile(path_);
  }
  void expect_refused(const std::string& bytes, const std::string& part) const {
    try {
      open(bytes);
      ADD_FAILURE() << "taken, not refused with: " << part;
    } catch (const FormatError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("heed_gguf_" + std::to_string(getpid()) + ".gguf")).string();
};

const std::string kNumbers(24, 'x');  // of six floats

GgufBytes whole(uint32_t version = 3) {
  GgufBytes bytes(version);
  bytes.text("a.text", "llama").integer("an.integer", 7).number("a.number", 0.5f).flag("a.flag", true);
  bytes.texts("some.texts", {"", "ab", "\n"}).numbers<float>("some.numbers", {1, -2.5f});
  bytes.numbers<uint32_t>("some.integers", {3, 4}).fact("large", 10, GgufBytes::bytes_of(UINT64_MAX));
  return bytes.tensor("m", {3, 2}, 0, kNumbers).tensor("v", {4}, 1, "12345678");
}

TEST_F(Gguf, ReadsFactsAndPlaces) {
  for (const uint32_t version : {2u, 3u}) {
    const GgufFile file = open(whole(version).bytes());
    EXPECT_EQ(file.text("a.text"), "llama");
    EXPECT_EQ(file.integer("an.integer"), 7);
    EXPECT_EQ(file.number("an.integer"), 7.0);
    EXPECT_EQ(file.number("a.number"), 0.5);
    EXPECT_EQ(file.flag("a.flag"), true);
    EXPECT_EQ(file.texts("some.texts"), (std::vector<std::string_view>{"", "ab", "\n"}));
    EXPECT_EQ(file.numbers("some.numbers"), (std::vector<double>{1, -2.5}));
    EXPECT_EQ(file.integers("some.integers"), (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(file.text("absent"), std::nullopt);
    EXPECT_TRUE(file.texts("absent").empty());
    ASSERT_EQ(file.tensors().size(), 2u);
    const GgufTensor& matrix = *file.tensor("m");
    EXPECT_EQ(matrix.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_STREQ(matrix.type->name, "F32");
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(matrix.data), matrix.bytes), kNumbers);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.tensor("v")->data), 8), "12345678");
    EXPECT_EQ(file.tensor("w"), nullptr);
    EXPECT_TRUE(is_gguf(path_));
  }
}

TEST_F(Gguf, FactsOfAnotherType) {
  const GgufFile file = open(whole().bytes());
  EXPECT_THROW(file.text("an.integer"), FormatError);
  EXPECT_THROW(file.integer("a.number"), FormatError);
  EXPECT_THROW(file.integer("large"), FormatError);
  EXPECT_THROW(file.number("a.text"), FormatError);
  EXPECT_THROW(file.flag("an.integer"), FormatError);
  EXPECT_THROW(file.texts("some.numbers"), FormatError);
  EXPECT_THROW(file.numbers("some.texts"), FormatError);
  EXPECT_THROW(file.integers("some.numbers"), FormatError);
  EXPECT_THROW(file.integer("some.integers"), FormatError);
  EXPECT_THROW(file.numbers("a.number"), FormatError);
}

TEST_F(Gguf, WhatIsNoSuchFile) {
  EXPECT_THROW(GgufFile("/nowhere.gguf"), IoError);
  EXPECT_THROW(GgufFile("/dev/null"), IoError);
  EXPECT_THROW(GgufFile("/tmp"), IoError);
  EXPECT_FALSE(is_gguf("/nowhere.gguf"));
  EXPECT_FALSE(is_gguf("/tmp"));
  EXPECT_FALSE(is_gguf("/dev/zero"));
  expect_refused("", "is empty");
  expect_refused("GGML" + std::string(40, '\0'), "this is not a GGUF file");
  expect_refused(GgufBytes(1).bytes(), "version 1 of GGUF; heed reads 2 and 3");
  expect_refused(GgufBytes(3u << 24).bytes(), "big-endian");
}

TEST_F(Gguf, CountsAndSizesThatLie) {
  using B = GgufBytes;
  const std::string huge = B::bytes_of(UINT64_MAX), most = B::bytes_of(UINT64_MAX / 2);
  const std::string begin = "GGUF" + B::bytes_of(3u);
  expect_refused(begin + huge + B::bytes_of(uint64_t{0}), "18446744073709551615 tensors");
  expect_refused(begin + B::bytes_of(uint64_t{0}) + huge, "18446744073709551615 keys");
  expect_refused(B().fact("key", 8, huge).bytes(), "ends within its metadata");
  expect_refused(B().list("key", 8, UINT64_MAX, "").bytes(), "ends within its metadata");
  expect_refused(B().list("key", 12, UINT64_MAX / 8 + 2, "").bytes(), "ends within its metadata");
  expect_refused(B().list("key", 0, UINT64_MAX, "").bytes(), "ends within its metadata");
  expect_refused(B().list("key", 9, 1, "").bytes(), "of type 9 in a list");
  expect_refused(B().fact("k\ney", 13, "").bytes(), "'k?ey' is of type 13");
  expect_refused(B().integer("key", 1).integer("key", 2).bytes(), "'key' is there twice");
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 21})
    expect_refused(B().integer("general.alignment", alignment).bytes(), "a power of two");
  expect_refused(B().tensor("t", {}, 0, "").bytes(), "0 dimensions");
  expect_refused(B().tensor("t", {1, 1, 1, 1, 1}, 0, "").bytes(), "5 dimensions");
  expect_refused(B().tensor("t", {UINT64_MAX}, 0, "").bytes(), "overflows 64 bits");
  expect_refused(B().tensor("t", {1u << 31, 1u << 31, 1u << 31}, 0, "").bytes(), "overflows 64 bits");
  expect_refused(B().tensor("t", {33}, 8, std::string(68, '\0')).bytes(), "not whole blocks of Q8_0");
  expect_refused(B().tensor("t", {7}, 0, kNumbers).bytes(), "28 bytes from 0 on, which do not fit");
  expect_refused(B().placed("t", {6}, 0, UINT64_MAX - 31, kNumbers).bytes(), "do not fit");
  expect_refused(B().placed("t", {1}, 0, 4, kNumbers).bytes(), "do not fit");  // 4 is no multiple of 32
  expect_refused(B().tensor("t", {6}, 0, kNumbers).placed("u", {2}, 0, 0).bytes(), "'t' and 'u' overlap");
  expect_refused(B().tensor("t", {6}, 0, kNumbers).placed("t", {2}, 0, 0).bytes(), "'t' is there twice");
}

TEST_F(Gguf, TypesThatAreNotReadStopNothing) {
  const GgufFile file = open(GgufBytes().tensor("t", {256}, 23, kNumbers).bytes());
  EXPECT_EQ(file.tensor("t")->type, nullptr);
  EXPECT_EQ(file.tensor("t")->type_id, 23u);
}

// Whatever bytes there are: an answer or one line, and not more memory than the file has, by a small factor.
TEST_F(Gguf, CutAndChangedAnywhere) {
  const std::string good = whole().bytes();
  size_t refused = 0;
  const auto try_it = [&](const std::string& bytes) {
    write_anew(path_, bytes);
    const size_t before = test::allocated_bytes();
    try {
      const GgufFile file(path_);
      for (const char* key : {"a.text", "some.texts", "some.numbers", "an.integer"}) {
        try {
          file.texts(key);
          file.numbers(key);
        } catch (const FormatError&) {
        }
      }
    } catch (const FormatError& e) {
      ++refused;
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
    EXPECT_LT(test::allocated_bytes() - before, 20'000 + 20 * bytes.size());  // a stream's buffer, messages
  };
  for (size_t length = 0; length < good.size(); ++length) try_it(good.substr(0, length));
  EXPECT_EQ(refused, good.size());  // the last tensor ends with the file
  for (size_t at = 0; at < good.size(); ++at)
    for (const int change : {1, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      try_it(bytes);
    }
}

}  // namespace
}  // namespace heed
