#include "heed/label.h"

#include <gtest/gtest.h>

namespace heed {
namespace {

using namespace std::string_literals;

TEST(Label, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\a"s), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\0b\n\r\t\x7f"s), "a\\x00b\\n\\r\\t\\x7f");
  EXPECT_EQ(printable("\u0085\u009b31m"), "\\x85\\x9b31m");            // C1: CSI in one character
  EXPECT_EQ(printable("\u202Eevil\u2066"), "\\u{202E}evil\\u{2066}");  // direction overrides
  EXPECT_EQ(printable("\u2028\u2029\uFEFF\u200E"), "\\u{2028}\\u{2029}\\u{FEFF}\\u{200E}");
  EXPECT_EQ(printable("a\u200Db"), "a\u200Db");  // the joiner of emoji and scripts stays
  EXPECT_EQ(printable("¿Qué? 注意 שלום"), "¿Qué? 注意 שלום");
}

TEST(Label, ReplacesMalformedBytes) {
  EXPECT_EQ(printable("a\xff\xfez"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(printable("\xc3"), "\uFFFD");                      // cut short
  EXPECT_EQ(printable("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(printable("\xff", true), "\\u{FFFD}");
}

TEST(Label, AsciiSpellsTheRest) { EXPECT_EQ(printable("né注😀", true), "n\\u{E9}\\u{6CE8}\\u{1F600}"); }

TEST(Label, WidthIsInColumns) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("注意"), 4);
  EXPECT_EQ(display_width("e\u0301te\u0301"), 3);  // combining accents take no room
  EXPECT_EQ(display_width("😀"), 2);
  EXPECT_EQ(display_width("👩\u200D👩\u200D👧"), 2);  // one grapheme
  EXPECT_EQ(display_width("🇪🇸"), 2);
  EXPECT_EQ(display_width("❤\uFE0F"), 2);
  EXPECT_EQ(display_width("שלום"), 4);
  EXPECT_EQ(display_width("한국"), 4);
}

TEST(Label, TruncatesBetweenGraphemes) {
  EXPECT_EQ(truncate("abcdef", 6), "abcdef");
  EXPECT_EQ(truncate("abcdef", 5), "abcd…");
  EXPECT_EQ(truncate("abcdef", 5, true), "abcd~");
  EXPECT_EQ(truncate("abcdef", 1), "…");
  EXPECT_EQ(truncate("abcdef", 0), "");
  EXPECT_EQ(truncate("注意力机制", 5), "注意…");
  EXPECT_EQ(truncate("注意力机制", 6), "注意…");  // a half of 力 does not fit: one column stays free
  EXPECT_EQ(truncate("e\u0301e\u0301e\u0301", 2), "e\u0301…");
  EXPECT_EQ(truncate("👩\u200D👩\u200D👧xyz", 4), "👩\u200D👩\u200D👧x…");
  EXPECT_EQ(truncate("👩\u200D👩\u200D👧xyz", 2), "…");
}

TEST(Label, KnowsRightToLeft) {
  EXPECT_TRUE(has_right_to_left("x שלום"));
  EXPECT_TRUE(has_right_to_left("مرحبا"));
  EXPECT_FALSE(has_right_to_left("注意 ¿y?"));
}

}  // namespace
}  // namespace heed
