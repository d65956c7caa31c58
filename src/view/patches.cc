// Weights over the patches of a picture, in the terminal.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "heed/view.h"
#include "view/color_map.h"
#include "view/panels.h"
#include "view/terminal_pen.h"

namespace heed::inline v0 {
namespace {

constexpr Rgb kGround = {0, 0, 0}, kNotFinite = {128, 128, 128};
constexpr int64_t kMostLines = 24, kBetween = 3;  // columns between the picture and the weights

/// The picture, and beside it the weights over it. A half block shows two pixels, one above the other, which are about
/// square.
class TerminalPatches {
 public:
  TerminalPatches(Panels panels, const Tensor& picture, const TerminalOptions& options)
      : panels_(std::move(panels)),
        picture_(picture.contiguous()),
        options_(at_least_20_columns(options)),
        pen_(options_, &out_) {
    pool(&panels_, options_.width);
    arrange();
  }

  std::string draw() {
    pen_.paragraph(panels_.title);
    for (int64_t line = 0; line < lines_; ++line) {
      if (both_) {
        half_blocks(line, [this](int64_t y, int64_t x) { return pixel(y, x); });
        pen_.spaces(kBetween);
      }
      half_blocks(line, [this](int64_t y, int64_t x) { return covered(y, x); });
      pen_.end_line();
    }
    pen_.scale("scale: 0 ", " " + format_weight(panels_.maximum), false);
    for (const std::string& note : panels_.notes) pen_.paragraph("note: " + note);
    return out_;
  }

 private:
  // As large as fits, each patch the same number of columns; both pictures where there is room for both.
  void arrange() {
    const auto lines_for = [&](int64_t width) {
      return std::max<int64_t>(1, (width * picture_.size(0) + picture_.size(1)) / (2 * picture_.size(1)));
    };
    const auto fits = [&](int64_t width, bool both) {
      return (both ? 2 * width + kBetween : width) <= options_.width && lines_for(width) <= kMostLines;
    };
    both_ = fits(panels_.keys, true);
    int64_t columns = 1;  // of a patch
    while (fits(panels_.keys * (columns + 1), both_)) ++columns;
    width_ = panels_.keys * columns;
    lines_ = lines_for(width_);
  }

  template <class Color>
  void half_blocks(int64_t line, const Color& color) {
    for (int64_t x = 0; x < width_; ++x) pen_.write("▀", color(2 * line, x), color(2 * line + 1, x));
  }

  // The mean of what lies there.
  Rgb pixel(int64_t y, int64_t x) const {
    const auto range = [](int64_t at, int64_t of, int64_t size) {
      const int64_t begin = at * size / of;
      return std::pair(begin, std::max(begin + 1, (at + 1) * size / of));
    };
    const auto [top, bottom] = range(y, 2 * lines_, picture_.size(0));
    const auto [left, right] = range(x, width_, picture_.size(1));
    std::array<int64_t, 3> sums{};
    for (int64_t row = top; row < bottom; ++row)
      for (int64_t column = left; column < right; ++column)
        for (int64_t c = 0; c < 3; ++c) sums[static_cast<size_t>(c)] += picture_.at<uint8_t>(row, column, c);
    const int64_t count = (bottom - top) * (right - left);
    const auto mean = [&](size_t c) { return static_cast<uint8_t>(sums[c] / count); };
    return {mean(0), mean(1), mean(2)};
  }

  Rgb covered(int64_t y, int64_t x) const {
    const int64_t row = y * panels_.queries / (2 * lines_), column = x * panels_.keys / width_;
    const double weight = panels_.panel(0)[row * panels_.keys + column];
    if (!std::isfinite(weight)) return kNotFinite;
    const double t = std::clamp(weight / panels_.maximum, 0.0, 1.0);
    return over_picture(pixel(y, x), t, terminal_color(t), kGround);
  }

  Panels panels_;
  Tensor picture_;
  TerminalOptions options_;
  std::string out_;
  TerminalPen pen_;
  bool both_ = true;
  int64_t width_ = 0, lines_ = 0;
};

}  // namespace

std::string render_overlay_terminal(const PatchMap& map, const TerminalOptions& options) {
  Panels panels = patch_panels(map, "render_overlay_terminal", options.maximum, !options.unicode);
  const bool half_blocks = options.color != TerminalColor::none && options.unicode;
  if (panels.rank > 2 || !half_blocks) return draw_terminal(std::move(panels), options);
  return TerminalPatches(std::move(panels), map.picture, options).draw();
}

}  // namespace heed::inline v0
