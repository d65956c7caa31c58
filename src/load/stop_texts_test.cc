#include "load/stop_texts.h"

#include <gtest/gtest.h>

#include <random>

#include "heed/error.h"
#include "heed/text.h"

namespace heed::inline v0 {
namespace {

// What comes out after each byte, and at the end.
std::vector<std::string> byte_by_byte(const std::string& text, const std::vector<std::string>& stops = {}) {
  StopTexts stream(stops);
  std::vector<std::string> out;
  for (const char c : text) out.push_back(stream.push(std::string(1, c)));
  out.push_back(stream.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

TEST(StopTexts, TakesWholeCharacters) {
  EXPECT_THROW(StopTexts({""}), UsageError);
  EXPECT_THROW(StopTexts({"a", "\xC3"}), UsageError);  // half of an é would be cut
  EXPECT_THROW(StopTexts({"\xA9"}), UsageError);
}

TEST(StopStrings, EndWithTheTokenThatCompletesOne) {
  const Tokenizer tokenizer{Vocabulary::characters("abcd \n")};
  const auto ids = [&](const std::string& text) { return tokenizer.encode(text, /*special_tokens=*/false).ids; };
  const StopStrings stops({"ab", "\n\n"}, tokenizer);
  EXPECT_FALSE(stops.empty());
  for (const char* text : {"ab", "cab", "c\n\n", "abab"}) EXPECT_TRUE(stops.ends(ids(text))) << text;
  for (const char* text : {"", "a", "aba", "abc", "\n", "\na\n", "b"}) EXPECT_FALSE(stops.ends(ids(text))) << text;
  EXPECT_TRUE(StopStrings({}, tokenizer).empty());
  EXPECT_FALSE(StopStrings({}, tokenizer).ends(ids("ab")));
}

// A word has its space also at the beginning of a text, where decoders drop it, and bytes count one by one.
TEST(StopStrings, AreFoundInTheTextsOfTokens) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁abcdef",-1],["▁a",-1],["b",-1],["▁",-2],["<0xC3>",-3],)"
      R"(["<0xA9>",-3]],"byte_fallback":true},"normalizer":null,"added_tokens":[],)"
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},"post_processor":null,)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},)"
      R"({"type":"ByteFallback"}]}})",
      "tokenizer.json");
  const auto ends = [&](const char* stop, const std::vector<int32_t>& ids) {
    return StopStrings({stop}, tokenizer).ends(ids);
  };
  EXPECT_TRUE(ends(" ", {2}));
  EXPECT_TRUE(ends(" ab", {2, 3}));
  EXPECT_TRUE(ends("b ", {3, 2}));
  EXPECT_FALSE(ends("b ", {3, 3}));
  EXPECT_FALSE(ends(" a", {2, 3}));  // the last token has no part of it
  EXPECT_TRUE(ends("é", {5, 6}));
  EXPECT_FALSE(ends("é", {5}));
  EXPECT_FALSE(ends("ab", {2, 9, 3}));  // 9 is no token
}

TEST(StopTexts, EndsBeforeOneThatComesInParts) {
  EXPECT_EQ(byte_by_byte("one\n\ntwo", {"\n\n"}), (std::vector<std::string>{"o", "n", "e", "", "", "", "", "", ""}));
  EXPECT_EQ(byte_by_byte("one\ntwo", {"\n\n"}), (std::vector<std::string>{"o", "n", "e", "", "\nt", "w", "o", ""}));
  EXPECT_EQ(joined(byte_by_byte("aab", {"ab"})), "a");
  EXPECT_EQ(joined(byte_by_byte("abacabab", {"abab"})), "abac");
  EXPECT_EQ(joined(byte_by_byte("xxEND", {"END", "xE"})), "x");
  EXPECT_EQ(joined(byte_by_byte("what comes", {"never"})), "what comes");
  EXPECT_EQ(joined(byte_by_byte("nev", {"never"})), "nev");
  EXPECT_EQ(joined(byte_by_byte("café", {"é"})), "caf");
  StopTexts stream({"b"});
  EXPECT_EQ(stream.push("abc"), "a");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("d"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StopTexts, CutsLikeASearchOfTheWhole) {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; --n) text += static_cast<char>('a' + random() % 2);
    std::vector<std::string> stops;
    for (unsigned n = random() % 3; n > 0; --n) {
      std::string& stop = stops.emplace_back();
      for (unsigned m = 1 + random() % 4; m > 0; --m) stop += static_cast<char>('a' + random() % 2);
    }
    // One byte at a time, the stop that is whole first ends the text: search every beginning.
    std::string expected = text;
    for (size_t n = 1; n <= text.size() && expected == text; ++n)
      for (const std::string& stop : stops)
        if (const size_t at = text.substr(0, n).find(stop); at != std::string::npos)
          expected =
              std::min(expected, text.substr(0, at), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    ASSERT_EQ(joined(byte_by_byte(text, stops)), expected) << text << ' ' << testing::PrintToString(stops);
  }
}

}  // namespace
}  // namespace heed::inline v0
