#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "heed/io.h"
#include "io/json.h"

namespace heed {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no FormatError";
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(ConfigReader, ReadsEveryType) {
  ConfigReader reader(R"({"layers": 6, "rate": 0.5, "whole": 2, "tied": true, "kind": "pre", "sub": {"x": 1}})", "c");
  EXPECT_EQ(reader.integer("layers", 1, 100), 6);
  EXPECT_EQ(reader.number("rate", 0, 1), 0.5);
  EXPECT_EQ(reader.number("whole", 0, 2), 2);
  EXPECT_TRUE(reader.boolean("tied"));
  EXPECT_EQ(reader.one_of("kind", {"pre", "post"}), "pre");
  ConfigReader sub = reader.object("sub");
  EXPECT_EQ(sub.integer("x", 1, 1), 1);
  sub.finish();
  EXPECT_EQ(reader.integer("absent", 0, 9, 7), 7);
  EXPECT_EQ(reader.string("gone", "fallback"), "fallback");
  EXPECT_FALSE(reader.boolean("off", false));
  EXPECT_TRUE(reader.has("layers"));
  EXPECT_FALSE(reader.has("absent"));
  reader.finish();
}

TEST(ConfigReader, NamesFileKeyValueAndRange) {
  const char* bad[] = {
      "-3",  "0", "99999999999999999999999", "18446744073709551615", "101", "1.0", "1e2", "\"6\"", "null", "true",
      "[1]", "{}"};
  for (const char* value : bad) {
    const std::string text = error_of(
        [&] { ConfigReader(std::string("{\"layers\": ") + value + "}", "dir/config.json").integer("layers", 1, 100); });
    EXPECT_MENTIONS(text, "dir/config.json");
    EXPECT_MENTIONS(text, "\"layers\"");
    EXPECT_MENTIONS(text, "1..100");
  }
  EXPECT_MENTIONS(error_of([&] { ConfigReader("{\"layers\": -3}", "c").integer("layers", 1, 100); }), "is -3;");
  EXPECT_MENTIONS(error_of([&] { ConfigReader("{}", "c").integer("layers", 1, 100); }), "\"layers\" is missing");
  for (const char* value : {"-0.1", "1.5", "1e300", "\"nan\"", "null"})
    EXPECT_MENTIONS(error_of([&] { ConfigReader(std::string("{\"rate\": ") + value + "}", "c").number("rate", 0, 1); }),
                    "0.0..1.0");
  EXPECT_MENTIONS(error_of([&] {
                    ConfigReader("{\"k\": \"mid\"}", "c").one_of("k", {"pre", "post"});
                  }),
                  "\"pre\" or \"post\"");
  EXPECT_MENTIONS(error_of([&] { ConfigReader("{\"s\": {\"x\": 9}}", "c").object("s").integer("x", 1, 2); }),
                  "in \"s\": \"x\" is 9");
}

TEST(ConfigReader, ExtremesOfInt64) {
  constexpr auto kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ConfigReader("{\"x\": 9223372036854775807}", "c").integer("x", kLow, kHigh), kHigh);
  EXPECT_EQ(ConfigReader("{\"x\": -9223372036854775808}", "c").integer("x", kLow, kHigh), kLow);
  EXPECT_THROW(ConfigReader("{\"x\": 9223372036854775808}", "c").integer("x", kLow, kHigh), FormatError);
}

TEST(ConfigReader, RefusesUnknownKeysAndNamesTheNearest) {
  ConfigReader reader(R"({"leyers": 3})", "c");
  reader.integer("layers", 1, 9, 1);
  reader.integer("heads", 1, 9, 1);
  const std::string text = error_of([&] { reader.finish(); });
  EXPECT_MENTIONS(text, "\"leyers\"");
  EXPECT_MENTIONS(text, "\"layers\"");
}

TEST(ConfigReader, RefusesWhatIsNotStrictJson) {
  using namespace std::string_literals;
  const std::string texts[] = {"",
                               "{",
                               "[]",
                               "3",
                               "null",
                               "{} {}",
                               "{}x",
                               "{\"a\": NaN}",
                               "{\"a\": 1e999}",
                               "{\"a\": 01}",
                               "{\"a\": 1,}",
                               "{'a': 1}",
                               "{\"a\": 1} // no",
                               "{\"a\": \"\xff\"}",
                               "{}\0"s,
                               "{\"a\": 1}\0{"s,
                               "\xEF\xBB\xBF{}",
                               "{\"a\": \"\\ud800\"}",
                               "{\"a\": 1, \"a\": 1}",
                               "{\"s\": {\"b\": 1, \"b\": 2}}",
                               "{\"a\": \"\n\"}"};
  for (const std::string& text : texts) EXPECT_THROW(ConfigReader(text, "c"), FormatError) << text;
  EXPECT_MENTIONS(error_of([] { ConfigReader("{\"a\": 1, \"a\": 1}", "c"); }), "\"a\" occurs twice");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_MENTIONS(error_of([&] { ConfigReader(deep, "c"); }), "deeper than 64");
  EXPECT_MENTIONS(error_of([&] { ConfigReader("{\"a\": " + std::string(100000, '['), "c"); }), "deeper than 64");
}

TEST(ConfigReader, EqualKeysInDifferentObjectsAreFine) {
  ConfigReader reader(R"({"a": {"x": 1}, "b": {"x": 2}, "c": [{"x": 1}, {"x": 1}]})", "c");
  EXPECT_EQ(reader.object("a").integer("x", 0, 9), 1);
  EXPECT_EQ(reader.object("b").integer("x", 0, 9), 2);
}

TEST(ParseJson, MakesWhatTheLibraryMakes) {
  const char* texts[] = {
      "[]",
      "{}",
      "0",
      "null",
      "\"text\"",
      R"([[], {}, [[{}]], true, false, null, -1, 18446744073709551615, 0.5, -0.0, 1e3, "", "\u00e9"])",
      R"({"": {"": {"": [{"": [1, {"a": 2}, 3]}, 4]}}, "b": {"c": [], "d": {}}, "e": [[1], [2, [3]], 4], "a": {}})"};
  for (const std::string text : texts) {
    const nlohmann::json made = parse_json(text, "c"), wanted = nlohmann::json::parse(text);
    EXPECT_EQ(made, wanted) << text;
    EXPECT_EQ(made.dump(), wanted.dump()) << text;
    EXPECT_EQ(parse_ordered_json(text, "c").dump(), nlohmann::ordered_json::parse(text).dump()) << text;
  }
  for (const size_t depth : {kJsonDepth, kJsonDepth + 1}) {
    const std::string text = std::string(depth, '[') + std::string(depth, ']');
    if (depth == kJsonDepth)
      EXPECT_EQ(parse_json(text, "c"), nlohmann::json::parse(text));
    else
      EXPECT_MENTIONS(error_of([&] { parse_json(text, "c"); }), "c: nested deeper than 64 levels");
  }
}

TEST(ParseJson, TimeGrowsWithTheText) {
  const auto begun = std::chrono::steady_clock::now();
  const auto many = [](const std::string& one) {
    std::string list = one;
    for (int i = 0; i < 100000; ++i) list += "," + one;
    return list;
  };
  EXPECT_EQ(parse_json("[" + many("{}") + "]", "c").size(), 100001u);
  EXPECT_EQ(parse_json("[" + many("{\"\":{\"\":[{}]}}") + "]", "c").size(), 100001u);
  std::string members = "{\"\":{}";
  for (int i = 0; i < 100000; ++i) members += ",\"" + std::to_string(i) + "\":{}";
  EXPECT_EQ(parse_json(members + "}", "c").size(), 100001u);
  EXPECT_EQ(parse_ordered_json(members + "}", "c").size(), 100001u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST(ConfigReader, MessagesAreOneShortPrintableLine) {
  const std::string text = error_of([] {
    ConfigReader reader("{\"" + std::string(100000, 'k') + "\\n\\u001b[31m\": 1}", "c");
    reader.integer("known", 0, 1, 0);
    reader.finish();
  });
  EXPECT_LT(text.size(), 300u);
  for (const char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(ConfigWriter, KeepsOrderAndBits) {
  ConfigWriter sub;
  sub.set("y", 0.1).set("on", true);
  ConfigWriter writer;
  writer.set("zeta", 3).set("alpha", int64_t{-9223372036854775807}).set("name", "caf\xC3\xA9 \"x\"").set("sub", sub);
  writer.set("third", 1.0 / 3).set("tiny", 5e-324);
  const std::string text = writer.text();
  EXPECT_LT(text.find("zeta"), text.find("alpha"));
  EXPECT_EQ(text.back(), '\n');
  ConfigReader reader(text, "c");
  EXPECT_EQ(reader.integer("zeta", 0, 9), 3);
  EXPECT_EQ(reader.integer("alpha", std::numeric_limits<int64_t>::min(), 0), -9223372036854775807);
  EXPECT_EQ(reader.string("name"), "caf\xC3\xA9 \"x\"");
  EXPECT_EQ(reader.number("third", 0, 1), 1.0 / 3);
  EXPECT_EQ(reader.number("tiny", 0, 1), 5e-324);
  ConfigReader read_sub = reader.object("sub");
  EXPECT_EQ(read_sub.number("y", 0, 1), 0.1);
  EXPECT_TRUE(read_sub.boolean("on"));
  EXPECT_THROW(writer.set("bad", std::nan("")), FormatError);
  EXPECT_THROW(ConfigWriter().set("bad", "\xff").text(), FormatError);
}

}  // namespace
}  // namespace heed
