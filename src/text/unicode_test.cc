#include "text/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

struct Replacement {
  std::string bytes;
  std::string text;
  int64_t replaced;
};

TEST(SanitizeUtf8, ReplacesMaximalSubparts) {
  const std::string r = "\ufffd";
  const std::vector<Replacement> cases = {
      {"", "", 0},
      {"añ😀" + std::string(1, '\0'), "añ😀" + std::string(1, '\0'), 0},
      {"\xff", r, 1},
      {"\x80\x80", r + r, 2},
      // Cut short: one replacement for what could have begun a character.
      {"\xe2\x96", r, 1},
      {"\xf0\x9f\x98", r, 1},
      {"\xe2\x96"
       "a",
       r + "a", 1},
      // Overlong, surrogate, above U+10FFFF: no second byte fits the first.
      {"\xc0\x80", r + r, 2},
      {"\xe0\x80\x80", r + r + r, 3},
      {"\xed\xa0\x80", r + r + r, 3},
      {"\xf4\x90\x80\x80", r + r + r + r, 4},
      {"\xf5", r, 1},
      {"\xf4\x8f\xbf\xbf", "\U0010ffff", 0},
      // The Unicode Standard's own example (table 3-8).
      {"a\xf1\x80\x80\xe1\x80\xc2"
       "b\x80"
       "c\x80\xbf"
       "d",
       "a" + r + r + r + "b" + r + "c" + r + r + "d", 6},
  };
  for (const Replacement& c : cases) {
    int64_t replaced = 0;
    EXPECT_EQ(sanitize_utf8(c.bytes, &replaced), c.text);
    EXPECT_EQ(replaced, c.replaced);
    EXPECT_EQ(valid_utf8(c.bytes), c.replaced == 0);
  }
}

TEST(ToLower, EqualsPython) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Hello WORLD", "hello world"},
      {"ÉCOLE ǅ ẞ", "école ǆ ß"},
      {"ΟΔΥΣΣΕΥΣ", "οδυσσευς"},
      {"Σ 1Σ", "σ 1σ"},
      {"aΣb aΣ.b aΣ. b a.Σ", "aσb aσ.b aς. b a.ς"},
      {"aΣ\u0301 ⒶΣ", "aς\u0301 ⓐς"},
      {"İI", "i\u0307i"},
      {"𐐀", "𐐨"},
      {"\xff", "\ufffd"},
  };
  for (const auto& [text, lower] : cases) EXPECT_EQ(to_lower(text), lower);
}

TEST(SplitWords, SplitsAtUnicodeSpaces) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(split_words(" a\u00a0b\u3000\tc\x1c"
                        "d\u2028e\u200bf "),
            (Words{"a", "b", "c", "d", "e\u200bf"}));
  EXPECT_EQ(split_words(""), Words{});
  EXPECT_EQ(split_words(" \u3000"), Words{});
  EXPECT_EQ(trim_end(" a b \u3000\n"), " a b");
  EXPECT_EQ(trim_end(" "), "");
}

TEST(ToNfc, ComposesAndKeepsCompatibilityCharacters) {
  EXPECT_EQ(to_nfc("n\u0303 \u212b ﬁ \u1112\u1161\u11ab"), "ñ \u00c5 ﬁ 한");
  EXPECT_EQ(to_nfc("e\u0301\u0323"), "\u1eb9\u0301");
  EXPECT_EQ(to_nfc(std::string("a\0\uffff", 5)), std::string("a\0\uffff", 5));
}

}  // namespace
}  // namespace heed::inline v0
