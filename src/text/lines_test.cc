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
  write("a\tb\n\n\nc\td\n");
  EXPECT_EQ(refusal(1, 2), path_.string() + ": line 2 is empty; each line is a pair");
}

TEST(PairStream, LeavesOutBadLines) {
  std::istringstream in("a\tb\n\n\nonly\nc\td\n\xff\te\ne\tf\n\n");
  SkippedLines skipped;
  PairStream pairs(in, "test", 1, 2, &skipped);
  Lines sources;
  for (std::string source, target; pairs.next(source, target);) sources.push_back(source);
  EXPECT_EQ(sources, (Lines{"a", "c", "e"}));
  EXPECT_EQ(pairs.replaced(), 0);
  EXPECT_EQ(skipped.in_words(),
            "left out 4 bad lines: 2 empty, 1 without all columns, 1 not UTF-8; the first is test: line 2");
}

// What becomes of a text that is read part by part, or why it is refused.
std::string checked(const Lines& parts, const std::string& name = "a pipe") {
  Utf8Check check(name);
  std::string text;
  try {
    for (const std::string& part : parts) text += check.take(part);
    check.expect_utf8();
  } catch (const FormatError& error) {
    return error.what();
  }
  return text;
}

// A text of ASCII in `width` bytes a character, the other ones 0 before or behind.
std::string wide(std::string_view text, size_t width, bool big) {
  std::string out;
  for (const char c : text) {
    const std::string zeros(width - 1, '\0');
    out += big ? zeros + c : c + zeros;
  }
  return out;
}

TEST(Utf8Check, FindsWideEncodings) {
  const std::string text = "it is a text";
  const auto refusal = [](const std::string& encoding, const std::string& from) {
    return "a pipe: the text is " + encoding + ", and heed reads UTF-8; convert it: iconv -f " + from + " -t UTF-8";
  };
  EXPECT_EQ(checked({"\xFF\xFE" + wide(text, 2, false)}), refusal("UTF-16", "UTF-16"));
  EXPECT_EQ(checked({"\xFE\xFF" + wide(text, 2, true)}), refusal("UTF-16", "UTF-16"));
  EXPECT_EQ(checked({std::string("\xFF\xFE\0\0", 4) + wide(text, 4, false)}), refusal("UTF-32", "UTF-32"));
  EXPECT_EQ(checked({std::string("\0\0\xFE\xFF", 4) + wide(text, 4, true)}), refusal("UTF-32", "UTF-32"));
  EXPECT_EQ(checked({wide(text, 2, false)}), refusal("UTF-16", "UTF-16LE"));
  EXPECT_EQ(checked({wide(text, 2, true)}), refusal("UTF-16", "UTF-16BE"));
  EXPECT_EQ(checked({wide(text, 4, false)}), refusal("UTF-32", "UTF-32LE"));
  EXPECT_EQ(checked({wide(text, 4, true)}), refusal("UTF-32", "UTF-32BE"));
  EXPECT_EQ(checked({"\xFF\xFE"}), refusal("UTF-16", "UTF-16"));  // nothing but the mark
  // Lines end in the byte 0x0A: the other half of a newline begins the next one.
  const std::string rest("\0", 1);
  EXPECT_EQ(checked({wide("a", 2, false), rest, rest + wide("longer", 2, false)}), refusal("UTF-16", "UTF-16LE"));
}

TEST(Utf8Check, TakesWhatIsUtf8) {
  EXPECT_EQ(checked({}), "");
  EXPECT_EQ(checked({"",
                     "\xEF\xBB\xBF"
                     "a"}),
            "\ufeffa");
  EXPECT_EQ(checked({"\xEF\xBB\xBF"
                     "a",
                     "é"}),
            "aé");
  const std::string nuls("a\0 text\0 of fields\0 with ends\0", 30);
  EXPECT_EQ(checked({nuls, std::string(100, '\0')}), nuls + std::string(100, '\0'));
  EXPECT_EQ(checked({std::string(20, '\0')}), std::string(20, '\0'));
  // Four damaged bytes say nothing; more do not, either, beside as many that are whole.
  EXPECT_EQ(checked({"\xE1\xE9\xED\xF3"}), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(checked({"\xE1 \xE9 \xED \xF3 \xFA", "áéíóú"}), "\ufffd \ufffd \ufffd \ufffd \ufffdáéíóú");
}

TEST(Utf8Check, FindsOtherEncodingsOfBytes) {
  EXPECT_EQ(
      checked({"ma\xF1"
               "ana",
               "\xE1 \xE9 \xED \xF3", "á"}),
      "a pipe: not UTF-8: 5 of 6 characters beyond ASCII are malformed; convert it, where it is Latin-1 by iconv -f "
      "ISO-8859-1 -t UTF-8");
  EXPECT_NE(checked({"\x93"
                     "a\x94 \x96 \x93"
                     "b\x94"})
                .find("Windows-1252 by iconv -f WINDOWS-1252"),
            std::string::npos);
  EXPECT_NE(checked({std::string("\xFF\xFA\0\x80\xFE\xF1\x90", 7)}).find("it is no text"), std::string::npos);
}

TEST_F(Files, CommandsThatConvertAreThoseOfAShell) {
  const std::filesystem::path odd = path_.string() + " it's.txt.gz";
  std::ofstream(odd) << "x";
  const std::string said = checked({"\xFF\xFE"}, odd.string());
  std::filesystem::remove(odd);
  const std::string stem = "'" + path_.string() + " it'\\''s";
  EXPECT_NE(said.find("gzip -dc " + stem + ".txt.gz' | iconv -f UTF-16 -t UTF-8 > " + stem + ".utf8.txt'"),
            std::string::npos)
      << said;
  EXPECT_EQ(shell_word("a-b_c/d.e"), "a-b_c/d.e");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
}

TEST_F(Files, WhatCannotBeRead) {
  EXPECT_EQ(refusal(1, 2), "read " + path_.string() + ": No such file or directory");
  EXPECT_THROW(read_lines(std::filesystem::temp_directory_path()), IoError);
}

}  // namespace
}  // namespace heed::inline v0
