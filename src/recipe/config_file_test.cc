#include "recipe/config_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

using Values = std::vector<std::string>;

Values values_of(const std::string& toml) {
  const std::vector<ConfigEntry> entries = parse_config(toml, "r.toml");
  EXPECT_EQ(entries.size(), 1u) << toml;
  return entries.empty() ? Values{} : entries[0].values;
}

std::string refusal(const std::string& toml) {
  try {
    parse_config(toml, "r.toml");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "taken";
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Values as Python's tomllib reads the same lines.
TEST(ConfigFile, ValuesAreThoseOfToml) {
  const std::vector<std::pair<std::string, Values>> cases{
      {"a = 1", {"1"}},
      {"a=1", {"1"}},
      {"\t a\t=\t1 \t# a comment", {"1"}},
      {"# first\n\n a = 1\r\n# last", {"1"}},
      {"\xEF\xBB\xBF"
       "a = 1",
       {"1"}},
      {"'a' = 1", {"1"}},
      {"\"a\" = true", {"true"}},
      {"a = false", {"false"}},
      {"a = +17", {"17"}},
      {"a = -17", {"-17"}},
      {"a = -0", {"0"}},
      {"a = 5_349_221", {"5349221"}},
      {"a = 0xDEAD_beef", {"3735928559"}},
      {"a = 0o755", {"493"}},
      {"a = 0b1101_0110", {"214"}},
      {"a = 9223372036854775807", {"9223372036854775807"}},
      {"a = -9223372036854775808", {"-9223372036854775808"}},
      {"a = 3.1415", {"3.1415"}},
      {"a = -0.01", {"-0.01"}},
      {"a = 5e+22", {"5e+22"}},
      {"a = 1e06", {"1e+06"}},
      {"a = -2E-2", {"-0.02"}},
      {"a = 6.626e-34", {"6.626e-34"}},
      {"a = 224_617.445_991", {"224617.445991"}},
      {"a = inf", {"inf"}},
      {"a = -inf", {"-inf"}},
      {"a = ''", {""}},
      {R"(a = "")", {""}},
      {R"(a = 'C:\data "x"')", {R"(C:\data "x")"}},
      {R"(a = "tab\tquote\" back\\ \u00e9 \U0001F426")", {"tab\tquote\" back\\ \xC3\xA9 \xF0\x9F\x90\xA6"}},
      {"a = 'no # comment' # one", {"no # comment"}},
      {"a = \"\"\"\none\r\ntwo\"\"\"", {"one\ntwo"}},
      {"a = \"\"\"one \\\n   \n  two\"\"\"", {"one two"}},
      {"a = \"\"\"say \"\"hello\"\"\"\"\"", {"say \"\"hello\"\""}},
      {"a = '''\nas \\n is\n'''", {"as \\n is\n"}},
      {"a = ''''two' quotes'''''", {"'two' quotes''"}},
      {"a = []", {}},
      {"a = [ ]", {}},
      {"a = [1, 2, 3]", {"1", "2", "3"}},
      {"a = [ # why\n 'x',\n\n 'y' , # and\n]", {"x", "y"}},
      {"a = ['x,]', \"#\"]", {"x,]", "#"}},
  };
  for (const auto& [toml, expected] : cases) EXPECT_EQ(values_of(toml), expected) << toml;
  EXPECT_TRUE(parse_config("", "r.toml").empty());
  EXPECT_TRUE(parse_config("\n# nothing\n\n", "r.toml").empty());
  const auto entries = parse_config("b = 1\na = 'x' # one\n\nc-d_9 = [true]\n", "r.toml");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_EQ(entries[1].name, "a");
  EXPECT_EQ(entries[2].name, "c-d_9");
  EXPECT_EQ(entries[2].values, Values{"true"});
}

TEST(ConfigFile, OtherTextIsRefusedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a", "line 1: no = follows 'a'"},
      {"a = 1\n\nb", "line 3: no = follows 'b'"},
      {"= 1", "line 1: it begins with no name"},
      {"\xC9\x8C = 1", "line 1: it begins with no name"},  // a letter that ends toml++ 3.3
      {"'a b' = 1", "line 1: it begins with no name"},
      {"'' = 1", "line 1: it begins with no name"},
      {"a = 1 b = 2", "line 1: a line holds one option"},
      {"a = 1\na = 2", "line 2: 'a' stands there twice"},
      {"a = 1\n'a' = 2", "line 2: 'a' stands there twice"},
      {"a.b = 1", "line 1: the name of an option is one word"},
      {"a . b = 1", "line 1: the name of an option is one word"},
      {"[a]", "line 1: it begins a table"},
      {"[[a]]", "line 1: it begins a table"},
      {"[#", "line 1: it begins a table"},
      {"a = {b = 1}", "line 1: 'a' holds a list or a table"},
      {"a = [[1]]", "line 1: 'a' holds a list or a table"},
      {"a =", "line 1: 'a' is empty"},
      {"a = # 1", "line 1: 'a' is empty"},
      {"a = b", "line 1: 'a' is \"b\", which is neither text nor a number, true or false"},
      {"a = True", "line 1: 'a' is \"True\""},
      {"a = 1979-05-27", "line 1: 'a' is \"1979-05-27\""},
      {"a = 07:32:00", "line 1: 'a' is \"07:32:00\""},
      {"a = 9223372036854775808", "line 1: 'a' is \"9223372036854775808\""},
      {"a = 0xFFFFFFFFFFFFFFFF", "line 1: 'a' is"},
      {"a = 1e999", "line 1: 'a' is \"1e999\""},
      {"a = -0x10", "line 1: 'a' is"},
      {"a = 012", "line 1: 'a' is"},
      {"a = 1_", "line 1: 'a' is"},
      {"a = _1", "line 1: 'a' is"},
      {"a = 1__2", "line 1: 'a' is"},
      {"a = .5", "line 1: 'a' is"},
      {"a = 5.", "line 1: 'a' is"},
      {"a = 1._5", "line 1: 'a' is"},
      {"a = 1e", "line 1: 'a' is"},
      {"a = 0x", "line 1: 'a' is"},
      {"a = 0b2", "line 1: 'a' is"},
      {"a = 'x", "line 1: a text has no end"},
      {"a = 'x\n'", "line 1: a text has no end"},
      {"a = \"x\\", "line 1: a backslash begins none of"},
      {"\na = '''x\ny\n", "line 2: a text has no end"},
      {"a = \"\"\"x\"\"", "line 1: a text has no end"},
      {R"(a = "\x41")", "line 1: a backslash begins none of"},
      {R"(a = "\u12")", "line 1: a backslash begins none of"},
      {R"(a = "\ud800")", "line 1: \\ud800 is no character"},
      {R"(a = "\U00110000")", "line 1: \\U00110000 is no character"},
      {R"(a = "\u0000")", "line 1: \\u0000 is no character"},
      {"a = [1", "line 1: the list of 'a' does not end"},
      {"a = [1 2]", "line 1: the list of 'a' does not end"},
      {"a = [,]", "line 1: 'a' is empty"},
      {"a = [1,,2]", "line 1: 'a' is empty"},
      {"a = 'x'\nb = 'y\x01'", "line 2: it has the control character 1"},
      {std::string("a = '\0'", 7), "line 1: it has the control character 0"},
      {"a = 1\rb = 2", "line 1: it has the control character 13"},
      {"a = 1\nb = '\xFF'", "line 2: it is not UTF-8"},
  };
  for (const auto& [toml, expected] : cases)
    EXPECT_TRUE(refusal(toml).starts_with("r.toml: " + expected)) << toml << "\n" << refusal(toml);
}

// A megabyte of what nests, repeats or never ends is refused at once, by a message of one line.
TEST(ConfigFile, LongAndNestedTextIsRefusedAtOnce) {
  constexpr int kTimes = 500'000;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& toml :
       {repeated("a.", kTimes) + "a = 1", "[" + repeated("a.", kTimes) + "a]", "a = " + repeated("[", kTimes),
        "a = " + repeated("[\n", kTimes), "a = " + repeated("{a = ", kTimes), repeated("[a]\n", kTimes),
        "a = " + repeated("1", kTimes), "a = " + repeated("1_", kTimes), repeated("a", kTimes) + "\n",
        "a = '" + repeated("\\", kTimes), "a = \"" + repeated("\\\\", kTimes), "a = [" + repeated("1,", kTimes),
        "'" + repeated("x", kTimes) + "'"}) {
    const std::string text = refusal(toml);
    EXPECT_TRUE(text.starts_with("r.toml: line ")) << text.substr(0, 200);
    EXPECT_LT(text.size(), 400u) << text.substr(0, 200);
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(values_of("a = [" + repeated("1,\n", kTimes) + "]").size(), static_cast<size_t>(kTimes));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "a" + std::to_string(i) + " = 1\n";
  EXPECT_EQ(parse_config(many, "r.toml").size(), 100'000u);
}

TEST(ConfigFile, WhatIsWrittenIsRead) {
  EXPECT_EQ(toml_line("a", {"1"}, false, false), "a = 1");
  EXPECT_EQ(toml_line("a", {"1"}, false, true), "a = \"1\"");
  EXPECT_EQ(toml_line("a", {"true"}, false, false), "a = true");
  EXPECT_EQ(toml_line("a", {"x", "2"}, true, false), "a = [\"x\", 2]");
  EXPECT_EQ(toml_line("a", {}, true, false), "a = []");
  EXPECT_THROW(toml_line("pairs", {"p\xE9.tsv"}, true, true), UsageError);  // no file of options could be read again
  for (const std::string& value : {std::string(""), std::string("x"), std::string("a\nb\t\"c\" \\d\x01\x7F"),
                                   std::string("\xC3\xA9 # ' \xF0\x9F\x90\xA6"), std::string("007"), std::string("+1"),
                                   std::string("1_0"), std::string("0x10"), std::string("inf"), std::string("1e999"),
                                   std::string("-"), std::string("1979-05-27"), std::string("99999999999999999999"),
                                   std::string("-12"), std::string("0.5"), std::string("1e-08"), std::string("true")})
    for (const bool quoted : {false, true})
      EXPECT_EQ(values_of(toml_line("a", {value}, false, quoted)), Values{value}) << value;
  EXPECT_EQ(values_of(toml_line("a", {"1.50"}, false, false)), Values{"1.5"});
}

}  // namespace
}  // namespace heed::inline v0
