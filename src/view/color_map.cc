#include "view/color_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace heed::inline v0 {
namespace {

struct Lab {
  double lightness, a, b;
};

double to_linear(double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); }
double to_gamma(double c) { return c <= 0.0031308 ? c * 12.92 : 1.055 * std::pow(c, 1 / 2.4) - 0.055; }

// Linear sRGB of an OKLab colour; outside 0..1 where sRGB cannot show it.
std::array<double, 3> linear_rgb(const Lab& c) {
  const double l = std::pow(c.lightness + 0.3963377774 * c.a + 0.2158037573 * c.b, 3);
  const double m = std::pow(c.lightness - 0.1055613458 * c.a - 0.0638541728 * c.b, 3);
  const double s = std::pow(c.lightness - 0.0894841775 * c.a - 1.2914855480 * c.b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

Lab to_lab(const Rgb& c) {
  const double r = to_linear(c.red / 255.0), g = to_linear(c.green / 255.0), b = to_linear(c.blue / 255.0);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

double squared_distance(const Lab& x, const Lab& y) {
  return (x.lightness - y.lightness) * (x.lightness - y.lightness) + (x.a - y.a) * (x.a - y.a) +
         (x.b - y.b) * (x.b - y.b);
}

// The path of the map at t: lightness is linear in t; hue turns from yellow to indigo.
Lab path(double t) {
  struct Knot {
    double t, chroma, hue;  // degrees
  };
  constexpr std::array<Knot, 6> knots = {
      {{0, 0.012, 108}, {0.16, 0.085, 116}, {0.36, 0.115, 155}, {0.56, 0.115, 215}, {0.78, 0.14, 260}, {1, 0.10, 280}}};
  size_t i = 0;
  while (i + 2 < knots.size() && t > knots[i + 1].t) ++i;
  const double u = (t - knots[i].t) / (knots[i + 1].t - knots[i].t);
  double chroma = knots[i].chroma + u * (knots[i + 1].chroma - knots[i].chroma);
  const double hue = (knots[i].hue + u * (knots[i + 1].hue - knots[i].hue)) * std::numbers::pi / 180;
  const double lightness = 0.985 - 0.755 * t;
  // Less chroma where sRGB ends, so that clipping never bends lightness.
  for (;; chroma *= 0.99) {
    const Lab color{lightness, chroma * std::cos(hue), chroma * std::sin(hue)};
    const auto rgb = linear_rgb(color);
    if (std::all_of(rgb.begin(), rgb.end(), [](double c) { return c > -1e-4 && c < 1 + 1e-4; })) return color;
  }
}

using Table = std::array<Rgb, 256>;

Table make_table() {
  Table table;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto rgb = linear_rgb(path(static_cast<double>(i) / 255));
    const auto byte = [](double c) {
      return static_cast<uint8_t>(std::lround(255 * to_gamma(std::clamp(c, 0.0, 1.0))));
    };
    table[i] = {byte(rgb[0]), byte(rgb[1]), byte(rgb[2])};
  }
  return table;
}

}  // namespace

Rgb paper_color(double t) {
  static const Table table = make_table();
  return table[static_cast<size_t>(std::lround(255 * std::clamp(t, 0.0, 1.0)))];
}

Rgb terminal_color(double t) { return paper_color(1 - std::clamp(t, 0.0, 1.0)); }

Rgb over_picture(Rgb pixel, double t, Rgb color, Rgb ground) {
  constexpr double kShown = 0.5, kCovered = 0.8;  // of the picture; by the strongest colour
  const double grey = 0.299 * pixel.red + 0.587 * pixel.green + 0.114 * pixel.blue;
  const double covered = kCovered * std::sqrt(std::clamp(t, 0.0, 1.0));
  const auto mixed = [&](uint8_t back, uint8_t over) {
    const double faded = back + kShown * (grey - back);
    return static_cast<uint8_t>(std::lround(faded + covered * (over - faded)));
  };
  return {mixed(ground.red, color.red), mixed(ground.green, color.green), mixed(ground.blue, color.blue)};
}

int nearest_palette_index(Rgb color) {
  constexpr std::array<uint8_t, 6> levels = {0, 95, 135, 175, 215, 255};
  const Lab wanted = to_lab(color);
  int best = 16;
  double best_distance = 1e9;
  for (int i = 16; i < 256; ++i) {
    Rgb candidate;
    if (i < 232) {
      const auto cube = static_cast<size_t>(i - 16);
      candidate = {levels[cube / 36], levels[cube / 6 % 6], levels[cube % 6]};
    } else {
      const auto grey = static_cast<uint8_t>(8 + 10 * (i - 232));
      candidate = {grey, grey, grey};
    }
    const double distance = squared_distance(wanted, to_lab(candidate));
    if (distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  return best;
}

namespace {

Rgb mixed(Rgb from, Rgb to, double t) {
  const auto part = [t](uint8_t a, uint8_t b) { return static_cast<uint8_t>(std::lround(a + (b - a) * t)); };
  return {part(from.red, to.red), part(from.green, to.green), part(from.blue, to.blue)};
}

}  // namespace

// The colours of the page (page/colors.js).
Rgb signed_paper_color(double t) {
  return mixed({255, 255, 255}, t < 0 ? Rgb{245, 166, 58} : Rgb{12, 60, 130}, std::min(1.0, std::abs(t)));
}

Rgb signed_terminal_color(double t) {
  return mixed({24, 24, 42}, t < 0 ? Rgb{180, 75, 12} : Rgb{160, 212, 255}, std::min(1.0, std::abs(t)));
}

bool is_light(Rgb color) { return to_lab(color).lightness > 0.6; }

}  // namespace heed::inline v0
