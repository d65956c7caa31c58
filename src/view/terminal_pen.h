// Text for a terminal: colours that change only where they must, paragraphs that keep to the width, labels in place.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/label.h"
#include "heed/view.h"
#include "view/color_map.h"

namespace heed::inline v0 {

inline TerminalOptions at_least_20_columns(TerminalOptions options) {
  options.width = std::max(options.width, 20);
  return options;
}

/// Columns of the widest label, 1 at least.
inline int widest_of(const std::vector<std::string>& labels) {
  int width = 1;
  for (const std::string& text : labels) width = std::max(width, display_width(text));
  return width;
}

/// Appends to a string.
class TerminalPen {
 public:
  TerminalPen(const TerminalOptions& options, std::string* out) : options_(options), out_(out) {}

  void write(std::string_view text, std::optional<Rgb> ink = {}, std::optional<Rgb> ground = {}) {
    if (options_.color != TerminalColor::none && (ink != ink_ || ground != ground_)) {
      // Colours are dropped by a reset: fewer states to get wrong than 39 and 49.
      if ((ink_ && !ink) || (ground_ && !ground)) {
        *out_ += "\x1b[0m";
        ink_.reset();
        ground_.reset();
      }
      if (ink && ink != ink_) set("38", *ink);
      if (ground && ground != ground_) set("48", *ground);
      ink_ = ink;
      ground_ = ground;
    }
    *out_ += text;
  }
  void spaces(int n) {
    if (n > 0) write(std::string(static_cast<size_t>(n), ' '));
  }
  void end_line() {
    write("");
    while (!out_->empty() && out_->back() == ' ') out_->pop_back();
    *out_ += '\n';
  }

  /// The colours from the least to the greatest weight, between two texts; `both`: of both sides of 0.
  void scale(const std::string& begin, const std::string& end, bool both) {
    const int steps = std::clamp(options_.width - static_cast<int>(begin.size() + end.size()), 2, 10);
    write(begin);
    for (int i = 0; i < steps; ++i) {
      const double t = static_cast<double>(i) / (steps - 1);
      write(" ", {}, both ? signed_terminal_color(2 * t - 1) : terminal_color(t));
    }
    write(end);
    end_line();
  }

  /// Wraps at spaces; a word wider than the terminal is cut.
  void paragraph(std::string_view text) {
    std::string line;
    while (!text.empty()) {
      const size_t space = text.find(' ');
      const std::string word = truncate(text.substr(0, space), options_.width, !options_.unicode);
      text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
      if (!line.empty() && display_width(line) + 1 + display_width(word) > options_.width) {
        *out_ += line + "\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    if (!line.empty()) *out_ += line + "\n";
  }
  /// A right to left word would pull the cells after it to its left: a left-to-right mark ends its reach.
  void label(const std::string& text, std::optional<Rgb> ink = {}, std::optional<Rgb> ground = {}) {
    write(has_right_to_left(text) ? text + "\u200E" : text, ink, ground);
  }

 private:
  void set(const char* which, Rgb c) {
    *out_ += std::string("\x1b[") + which;
    if (options_.color == TerminalColor::true_color)
      *out_ += ";2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue) + "m";
    else
      *out_ += ";5;" + std::to_string(nearest_palette_index(c)) + "m";
  }

  TerminalOptions options_;
  std::string* out_;
  std::optional<Rgb> ink_, ground_;
};

}  // namespace heed::inline v0
