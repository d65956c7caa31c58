#include "view/color_map.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

namespace heed {
namespace {

using Linear = std::array<double, 3>;

Linear linear(Rgb c) {
  const auto f = [](uint8_t byte) {
    const double v = byte / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return {f(c.red), f(c.green), f(c.blue)};
}

// Relative luminance (ITU-R BT.709): what a greyscale print keeps.
double luminance(const Linear& c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; }

// CIE lightness, in which equal steps look equal.
double lightness(double y) { return 116 * std::cbrt(y) - 16; }

TEST(ColorMap, FallsFromPaperToInk) {
  EXPECT_GT(luminance(linear(paper_color(0))), 0.9);
  EXPECT_LT(luminance(linear(paper_color(1))), 0.03);
  EXPECT_EQ(paper_color(-3), paper_color(0));
  EXPECT_EQ(paper_color(9), paper_color(1));
  EXPECT_EQ(terminal_color(0), paper_color(1));
  EXPECT_EQ(terminal_color(1), paper_color(0));
}

TEST(ColorMap, SidesOfZeroDifferInGrey) {
  const auto grey = [](Rgb c) { return luminance(linear(c)); };
  EXPECT_EQ(signed_paper_color(0), (Rgb{255, 255, 255}));
  for (const auto& color : {signed_paper_color, signed_terminal_color}) {
    EXPECT_GT(std::abs(grey(color(1)) - grey(color(-1))), 0.3);
    EXPECT_GT(color(-1).red, color(-1).blue);  // orange
    EXPECT_LT(color(1).red, color(1).blue);    // blue
    EXPECT_EQ(color(-7), color(-1));
    EXPECT_EQ(color(7), color(1));
    for (const int side : {-1, 1})  // away from 0 in one direction
      for (int i = 1; i <= 8; ++i) {
        const double rises = grey(color(side)) - grey(color(0));
        EXPECT_GT((grey(color(side * i / 8.0)) - grey(color(side * (i - 1) / 8.0))) * rises, 0) << side << " " << i;
      }
  }
}

TEST(ColorMap, GreyscaleStepsAreEven) {
  double before = lightness(luminance(linear(paper_color(0))));
  const double whole = before - lightness(luminance(linear(paper_color(1))));
  for (int i = 1; i <= 16; ++i) {
    const double now = lightness(luminance(linear(paper_color(i / 16.0))));
    EXPECT_NEAR(before - now, whole / 16, whole / 16 * 0.35) << "step " << i;
    before = now;
  }
}

// Colour blindness at full strength, matrices on linear RGB by Machado, Oliveira and Fernandes (2009).
TEST(ColorMap, MonotoneToColorBlindEyes) {
  constexpr std::array<std::array<double, 9>, 3> kinds = {
      {{0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
       {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
       {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}}};
  for (const auto& m : kinds) {
    double before = 2;
    for (int i = 0; i <= 64; ++i) {
      const Linear c = linear(paper_color(i / 64.0));
      Linear seen;
      for (size_t row = 0; row < 3; ++row)
        seen[row] = m[3 * row] * c[0] + m[3 * row + 1] * c[1] + m[3 * row + 2] * c[2];
      EXPECT_LT(luminance(seen), before) << "at " << i;
      before = luminance(seen);
    }
  }
}

TEST(ColorMap, PaletteFallback) {
  EXPECT_EQ(nearest_palette_index({0, 0, 0}), 16);
  EXPECT_EQ(nearest_palette_index({255, 255, 255}), 231);
  EXPECT_EQ(nearest_palette_index({255, 0, 0}), 196);
  EXPECT_EQ(nearest_palette_index({127, 129, 128}), 244);  // the grey ramp's 128
  EXPECT_EQ(nearest_palette_index({94, 136, 174}), 67);    // cube (1, 2, 3)
}

TEST(ColorMap, TextContrast) {
  EXPECT_TRUE(is_light({255, 255, 255}));
  EXPECT_FALSE(is_light({0, 0, 0}));
}

}  // namespace
}  // namespace heed
