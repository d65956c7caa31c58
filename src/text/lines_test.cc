#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& bytes, int64_t* replaced = nullptr) {
  std::istringstream in(bytes);
  return read_lines(in, "test", replaced);
}

TEST(ReadLines, EndsOfLines) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\n"), Lines{"a"});
  EXPECT_EQ(lines_of("a\r\nb\r\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\rb\n"), Lines{"a\rb"});
  EXPECT_EQ(lines_of("\n\na\n\n"), (Lines{"", "", "a", ""}));
}

TEST(ReadLines, ByteOrderMarkNulAndMalformedBytes) {
  int64_t replaced = 0;
  EXPECT_EQ(lines_of("\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n"), (Lines{"one", "\ufefftwo"}));
  EXPECT_EQ(lines_of(std::string("a\0b\n\xff\xfe\n", 7), &replaced), (Lines{std::string("a\0b", 3), "\ufffd\ufffd"}));
  EXPECT_EQ(replaced, 2);
}

class Files : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string refusal(int source, int target) {
    try {
      read_pairs_tsv(path_, source, target);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("heed_lines_test_" + std::to_string(::getpid()) + ".tsv");
};

TEST_F(Files, ReadsColumns) {
  write("a\tb\tc\r\n\t\xff\t\nx\ty\tz\tmore");
  const TextPairs pairs = read_pairs_tsv(path_, 3, 1);
  EXPECT_EQ(pairs.source, (Lines{"c", "", "z"}));
  EXPECT_EQ(pairs.target, (Lines{"a", "", "x"}));
  EXPECT_EQ(pairs.replaced, 1);
  EXPECT_EQ(read_lines(path_).size(), 3u);
}

TEST_F(Files, MissingColumnsNameTheLine) {
  write("a\tb\nonly\n");
  EXPECT_EQ(refusal(1, 2),
            path_.string() + ": line 2 has 1 column but column 2 is needed; columns are separated by one tab");
  EXPECT_EQ(refusal(4, 1),
            path_.string() + ": line 1 has 2 columns but column 4 is needed; columns are separated by one tab");
  EXPECT_EQ(refusal(0, 1), "read pairs: columns are counted from 1, but 0 and 1 were asked for");
}

TEST_F(Files, BlankLinesAreNoPairsAtTheEndAlone) {
  write("a\tb\n\r\n\n");
  EXPECT_EQ(read_pairs_tsv(path_).source, Lines{"a"});
  write("a\tb\n\nc\td\n");
  EXPECT_EQ(refusal(1, 2),
            path_.string() + ": line 2 has 1 column but column 2 is needed; columns are separated by one tab");
}

TEST_F(Files, WhatCannotBeRead) {
  EXPECT_EQ(refusal(1, 2), "read " + path_.string() + ": No such file or directory");
  EXPECT_THROW(read_lines(std::filesystem::temp_directory_path()), IoError);
}

}  // namespace
}  // namespace heed::inline v0
