#include "heed/view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "heed/label.h"
#include "view/color_map.h"

namespace heed {
namespace {

using namespace std::string_literals;

AttentionMap small_map() {
  return {Tensor::from<float>({0.7F, 0.2F, 0.1F, 0, 0.05F, 0.95F}, {2, 3}), {"my", "dog"}, {"mi", "perro", "."}, "T"};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string without_colors(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      EXPECT_EQ(text[i + 1], '[');
      while (text[i] != 'm') ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

TEST(Terminal, DigitsUnderLabels) {
  EXPECT_EQ(render_terminal(small_map()),
            "T\n"
            "      mi  perro   .\n"
            " my   7     2     1\n"
            "dog   0     0     9\n"
            "scale: 0 below 0.1, 9 from 0.9\n");
}

TEST(Terminal, StaircaseWhereLabelsDoNotFit) {
  EXPECT_EQ(render_terminal(small_map(), {.width = 20}),
            "T\n"
            "    mi\n"
            "    │ perro\n"
            "    │ │ .\n"
            " my 7 2 1\n"
            "dog 0 0 9\n"
            "scale: 0 below 0.1,\n"
            "9 from 0.9\n");
  EXPECT_NE(render_terminal(small_map(), {.width = 20, .unicode = false}).find("    | | .\n"), std::string::npos);
}

TEST(Terminal, LongKeyAxesContinueBelow) {
  const int keys = 12;
  const Tensor weights = Tensor::zeros({1, keys});
  for (int i = 0; i < keys; ++i) weights.at<float>(0, i) = static_cast<float>(i % 10) / 10;
  // 20 columns less "q " leave 18: a last label of 2 and nine keys to a block.
  EXPECT_EQ(render_terminal({weights, {"q"}, {}, ""}, {.width = 20, .maximum = 1}),
            "  0\n"
            "  │ 1\n"
            "  │ │ 2\n"
            "  │ │ │ 3\n"
            "  │ │ │ │ 4\n"
            "  │ │ │ │ │ 5\n"
            "  │ │ │ │ │ │ 6\n"
            "  │ │ │ │ │ │ │ 7\n"
            "  │ │ │ │ │ │ │ │ 8\n"
            "q 0 1 2 3 4 5 6 7 8\n"
            "\n"
            "  9\n"
            "  │ 10\n"
            "  │ │ 11\n"
            "q 9 0 1\n"
            "scale: 0 below 0.1,\n"
            "9 from 0.9\n"
            "note: 1 row does not\n"
            "sum to 1 (query 0\n"
            "sums to 4.6)\n");
}

TEST(Terminal, LabelsOfAnyScriptKeepTheColumns) {
  const AttentionMap map = {
      Tensor::full({5, 1}, 1), {"我叫", "e\u0301te\u0301", "👩\u200D👩\u200D👧", "שלום", "a"}, {"中"}, ""};
  EXPECT_EQ(render_terminal(map),
            "      中\n"
            "我叫  9\n"
            " e\u0301te\u0301  9\n"
            "  👩\u200D👩\u200D👧  9\n"
            "שלום\u200E  9\n"  // the mark keeps the digits on its right
            "   a  9\n"
            "scale: 0 below 0.1, 9 from 0.9\n");
}

TEST(Terminal, TrueColorCellsCarryPercents) {
  const AttentionMap map = {Tensor::from<float>({1, 0}, {1, 2}), {"q"}, {"a", "b"}, ""};
  const Rgb dark = terminal_color(0), light = terminal_color(1);
  const auto rgb = [](Rgb c) {
    return std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue) + "m";
  };
  const std::string expected =
      "   a   b\nq \x1b[38;2;0;0;0m\x1b[48;2;" + rgb(light) + "100 \x1b[0m\x1b[48;2;" + rgb(dark) + "    \x1b[0m\n";
  const std::string got = render_terminal(map, {.color = TerminalColor::true_color});
  EXPECT_EQ(got.substr(0, expected.size()), expected);
  // The scale runs from dark to light.
  EXPECT_NE(got.find("scale: 0 \x1b[48;2;" + rgb(dark)), std::string::npos);
  EXPECT_NE(got.find("\x1b[48;2;" + rgb(light) + " \x1b[0m 1, cells in %\n"), std::string::npos);
}

TEST(Terminal, PaletteFallbackHasNoTrueColor) {
  const std::string got = render_terminal(small_map(), {.color = TerminalColor::palette256});
  EXPECT_NE(got.find("\x1b[48;5;"), std::string::npos);
  EXPECT_EQ(got.find(";2;"), std::string::npos);
  EXPECT_EQ(lines_of(without_colors(got))[2], " my   70    20    10  ");
}

TEST(Terminal, ScaleFollowsTheLargestWeight) {
  AttentionMap map = small_map();
  map.weights = Tensor::from<double>({0.02, 0.04, 0.01, 0, 0.0, 0.05}, {2, 3});
  const auto lines = lines_of(render_terminal(map));
  EXPECT_EQ(lines[2], " my   4     8     2");
  EXPECT_EQ(lines[3], "dog   0     0     9");
  EXPECT_EQ(lines[4], "scale: 0 below 0.005, 9 from 0.045");
  EXPECT_EQ(lines_of(render_terminal(map, {.maximum = 0.02}))[2], " my   9     9     5");
}

TEST(Terminal, NotesWhatIsOdd) {
  AttentionMap map = small_map();
  map.weights = Tensor::from<float>({0.5F, 0.2F, 0.1F, 0, 0, 0, NAN, 0.5F, 0.5F, 0, INFINITY, -0.5F}, {4, 3});
  map.query_labels.clear();
  const std::string got = render_terminal(map);
  EXPECT_NE(got.find("note: 1 row does not sum to 1 (query 0 sums to 0.8)\n"), std::string::npos) << got;
  EXPECT_NE(got.find("note: 1 row is all zero\n"), std::string::npos);
  EXPECT_NE(got.find("note: 2 weights are not finite\n"), std::string::npos);
  EXPECT_NE(got.find("2   ?     9     9\n"), std::string::npos);
  EXPECT_NE(got.find("3   0     ?     i\n"), std::string::npos);
  // Half precision sums to 1 well enough.
  EXPECT_EQ(render_terminal({Tensor::full({1, 3}, 1.0 / 3, DType::f16), {}, {}, ""}).find("note"), std::string::npos);
}

TEST(Terminal, BothSidesOfZero) {
  AttentionMap map = small_map();
  map.weights = Tensor::from<double>({-0.2, 0.1, 0.019, 0.2, -0.019, -0.1}, {2, 3});
  map.shares = false;
  const auto lines = lines_of(render_terminal(map));
  EXPECT_EQ(lines[2], " my   i     5     0");
  EXPECT_EQ(lines[3], "dog   9     0     e");
  EXPECT_EQ(lines[4], "scale: 0 from -0.02 to 0.02, 9 from 0.18, below 0 a to i for 1 to 9");
  EXPECT_EQ(lines.size(), 5u);  // nothing is odd about what is no share
  const std::string colored = render_terminal(map, {.color = TerminalColor::true_color});
  for (const double t : {-1.0, 1.0}) {
    const Rgb c = signed_terminal_color(t);
    EXPECT_NE(
        colored.find("48;2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue)),
        std::string::npos);
  }
  EXPECT_NE(without_colors(colored).find("scale: -0.2 "), std::string::npos);
  EXPECT_EQ(without_colors(colored).find('%'), std::string::npos);
  map.weights.at<double>(0, 0) = NAN;
  EXPECT_EQ(odd_weights(map), std::vector<std::string>{"1 weight is not finite"});
}

TEST(Terminal, ThumbnailsOfHeads) {
  AttentionMap map;
  map.weights = Tensor::from<float>({1, 0, 0, 1, 0, 1, 1, 0}, {2, 2, 2});
  EXPECT_EQ(render_terminal(map),
            "head 1  head 2\n"
            "90      09\n"
            "09      90\n"
            "scale: 0 below 0.1, 9 from 0.9\n");
  const auto halves = lines_of(without_colors(render_terminal(map, {.color = TerminalColor::true_color})));
  EXPECT_EQ(halves[1], "▀▀      ▀▀");  // two queries in a line
  map.weights = map.weights.reshape({2, 1, 2, 2});
  EXPECT_EQ(lines_of(render_terminal(map))[4], "layer 2");
}

TEST(Terminal, ThumbnailsAreStripsOfTheirLargestWeights) {
  const Tensor weights = Tensor::zeros({1, 100, 100});
  weights.at<float>(0, 57, 31) = 1;
  // A quarter of the width (18 cells) and groups of 6: query 57 in group 9, key 31 in group 5.
  const auto lines = lines_of(render_terminal({weights, {}, {}, ""}, {.width = 80}));
  EXPECT_EQ(lines[1 + 9], "00000900000000000");
  EXPECT_NE(lines.back().find("largest of 6 queries x 6 keys"), std::string::npos) << lines.back();
}

TEST(Terminal, HostileLabelsAreHarmlessAndFit) {
  std::mt19937 random(3);
  const std::vector<std::string> nasty = {"\x1b[2J\x1b]0;x\a"s,
                                          "a\0b"s,
                                          std::string(10000, 'x'),
                                          "\r\n\n",
                                          "\xff\xc3",
                                          "\u202Eabc",
                                          "注意力机制",
                                          std::string(3000, '\x1b'),
                                          "",
                                          "👩\u200D👩\u200D👧 family",
                                          "e\u0301\u0302\u0303\u0304"};
  for (int round = 0; round < 200; ++round) {
    const int queries = static_cast<int>(random() % 6), keys = static_cast<int>(random() % 40);
    AttentionMap map;
    map.weights = Tensor::full({queries, keys}, keys > 0 ? 1.0 / keys : 0);
    for (int i = 0; i < queries; ++i) map.query_labels.push_back(nasty[random() % nasty.size()]);
    for (int i = 0; i < keys; ++i) map.key_labels.push_back(nasty[random() % nasty.size()]);
    map.title = nasty[random() % nasty.size()];
    TerminalOptions options;
    options.width = 1 + static_cast<int>(random() % 120);
    options.unicode = random() % 2 == 0;
    options.color = static_cast<TerminalColor>(random() % 3);
    const std::string text = without_colors(render_terminal(map, options));
    for (const std::string& line : lines_of(text)) {
      EXPECT_LE(display_width(line), std::max(20, options.width)) << line;
      for (const char c : line) {
        EXPECT_GE(static_cast<unsigned char>(c), 0x20);
        EXPECT_TRUE(options.unicode || static_cast<unsigned char>(c) < 0x7F);
      }
    }
  }
}

TEST(Terminal, RefusesWhatIsNoMap) {
  const auto message = [](const AttentionMap& map) -> std::string {
    try {
      render_terminal(map);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "accepted";
  };
  AttentionMap map = small_map();
  map.query_labels.push_back("more");
  EXPECT_EQ(message(map), "render_terminal: 3 query labels for 2 queries; pass one for each, or none");
  map = small_map();
  map.key_labels.pop_back();
  EXPECT_EQ(message(map), "render_terminal: 2 key labels for 3 keys; pass one for each, or none");
  EXPECT_EQ(message({Tensor::zeros({3}), {}, {}, ""}),
            "render_terminal: weights (3) are no map; pass (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk)");
  EXPECT_EQ(message({Tensor::zeros({3, 3}, DType::i64), {}, {}, ""}),
            "render_terminal: weights are i64; pass floating ones");
  EXPECT_NE(message({}), "accepted");
}

TEST(Terminal, Empty) {
  EXPECT_EQ(render_terminal({Tensor::zeros({0, 3}), {}, {}, ""}), "no weights: 0 queries, 3 keys, 1 heads\n");
}

TEST(Terminal, Detects) {
  using Environment = std::map<std::string, const char*>;
  const auto detect = [](bool tty, int columns, const Environment& environment) {
    return detect_terminal(tty, columns, [&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second;
    });
  };
  const Environment modern = {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}, {"LANG", "es_ES.UTF-8"}};
  const auto with = [&](Environment change) {
    change.insert(modern.begin(), modern.end());
    return change;
  };
  EXPECT_EQ(detect(true, 132, modern).color, TerminalColor::true_color);
  EXPECT_EQ(detect(true, 132, modern).width, 132);
  EXPECT_TRUE(detect(true, 132, modern).unicode);
  EXPECT_EQ(detect(false, 0, modern).color, TerminalColor::none);
  EXPECT_EQ(detect(false, 0, modern).width, 80);
  EXPECT_EQ(detect(false, 0, with({{"COLUMNS", "100"}})).width, 100);
  EXPECT_EQ(detect(false, 0, with({{"COLUMNS", "-7"}})).width, 80);
  EXPECT_EQ(detect(true, 80, with({{"NO_COLOR", "1"}})).color, TerminalColor::none);
  EXPECT_EQ(detect(true, 80, with({{"NO_COLOR", ""}})).color, TerminalColor::true_color);
  EXPECT_EQ(detect(true, 80, with({{"TERM", "dumb"}})).color, TerminalColor::none);
  EXPECT_EQ(detect(true, 80, with({{"COLORTERM", ""}})).color, TerminalColor::palette256);
  EXPECT_EQ(detect(true, 80, with({{"COLORTERM", ""}, {"TERM", "xterm-direct"}})).color, TerminalColor::true_color);
  EXPECT_EQ(detect(true, 80, {}).color, TerminalColor::none);
  EXPECT_FALSE(detect(true, 80, {}).unicode);
  EXPECT_FALSE(detect(true, 80, with({{"LC_ALL", "C"}})).unicode);  // stronger than LANG
  EXPECT_TRUE(detect(true, 80, {{"LC_CTYPE", "C.utf8"}}).unicode);
}

// Drawing text must load nothing of pictures; drawing a picture does, so the check can fail.
// Four patches of one colour each, of 8 x 8 pixels.
PatchMap four_patches() {
  PatchMap map{.weights = Tensor::from<float>({0, 0.5F, 0.25F, 0.125F}, {2, 2}),
               .picture = Tensor::empty({16, 16, 3}, DType::u8),
               .title = "T",
               .notes = {"the rest is elsewhere"}};
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x)
      for (int64_t c = 0; c < 3; ++c)
        map.picture.at<uint8_t>(y, x, c) = static_cast<uint8_t>(50 * (y / 8) + 100 * (x / 8) + 10 * c);
  return map;
}

TEST(Terminal, PatchesAsDigits) {
  EXPECT_EQ(render_overlay_terminal(four_patches()),
            "T\n"
            "   1   2\n"
            "1  0   9\n"
            "2  5   2\n"
            "scale: 0 below 0.05, 9 from 0.45\n"
            "note: the rest is elsewhere\n");
}

TEST(Terminal, WeightsLieOverThePictureBesideIt) {
  const std::string text = render_overlay_terminal(four_patches(), {.width = 40, .color = TerminalColor::true_color});
  const std::vector<std::string> lines = lines_of(text);
  // Nine cells a patch fit twice, and a line is as high as two cells.
  ASSERT_EQ(lines.size(), 1 + 9 + 2);
  std::string row;
  for (int i = 0; i < 18; ++i) row += "\u2580";
  for (size_t line = 1; line <= 9; ++line) EXPECT_EQ(without_colors(lines[line]), row + "   " + row);
  const auto color = [](Rgb c) {
    return ";2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue) + "m";
  };
  EXPECT_NE(lines[1].find("\x1b[38" + color({0, 10, 20})), std::string::npos);
  EXPECT_NE(lines[9].find("\x1b[48" + color({150, 160, 170})), std::string::npos);
  EXPECT_NE(lines[1].find(color(over_picture({100, 110, 120}, 1, terminal_color(1), {0, 0, 0}))), std::string::npos);
  EXPECT_NE(lines[1].find(color(over_picture({0, 10, 20}, 0, terminal_color(0), {0, 0, 0}))), std::string::npos);
}

TEST(Terminal, NarrowTerminalsShowTheWeightsAlone) {
  PatchMap map = four_patches();
  map.weights = Tensor::full({14, 14}, 1.0 / 196);
  for (const int width : {20, 27, 31, 32, 80, 300}) {
    const std::string text = render_overlay_terminal(map, {.width = width, .color = TerminalColor::palette256});
    for (const std::string& line : lines_of(without_colors(text))) EXPECT_LE(display_width(line), width) << width;
    EXPECT_LE(lines_of(text).size(), 29) << width;
  }
}

TEST(Terminal, LoadsNothingOfPictures) {
  const auto loaded = [](const char* name) {
    std::ifstream maps("/proc/self/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    return text.find(name) != std::string::npos;
  };
  render_terminal(small_map(), {.color = TerminalColor::true_color});
  statistics(small_map().weights);
  if (loaded("libcairo")) FAIL() << "cairo was loaded for text";
  EXPECT_FALSE(render_svg(small_map()).empty());
  EXPECT_TRUE(loaded("libcairo"));
  EXPECT_TRUE(loaded("libheed_pictures"));
}

}  // namespace
}  // namespace heed
