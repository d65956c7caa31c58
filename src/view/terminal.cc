#include "view/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "view/color_map.h"
#include "view/label.h"
#include "view/panels.h"

namespace heed::inline v0 {
namespace {

/// Appends text to a string, switching colours only where they change.
class Pen {
 public:
  Pen(const TerminalOptions& options, std::string* out) : kind_(options.color), out_(out) {}

  void write(std::string_view text, std::optional<Rgb> ink = {}, std::optional<Rgb> ground = {}) {
    if (kind_ != TerminalColor::none && (ink != ink_ || ground != ground_)) {
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

 private:
  void set(const char* which, Rgb c) {
    *out_ += std::string("\x1b[") + which;
    if (kind_ == TerminalColor::true_color)
      *out_ += ";2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue) + "m";
    else
      *out_ += ";5;" + std::to_string(nearest_palette_index(c)) + "m";
  }

  TerminalColor kind_;
  std::string* out_;
  std::optional<Rgb> ink_, ground_;
};

constexpr Rgb kNotFinite = {128, 128, 128};
constexpr int kPerCentCell = 4;  // columns that have room for the weight in per cent

class TerminalMap {
 public:
  TerminalMap(Panels panels, const TerminalOptions& options)
      : panels_(std::move(panels)), options_(options), pen_(options, &out_) {
    options_.width = std::max(options.width, 20);
  }

  std::string draw() {
    paragraph(panels_.title);
    if (panels_.count() == 0 || panels_.queries == 0 || panels_.keys == 0) {
      paragraph("no weights: " + std::to_string(panels_.queries) + " queries, " + std::to_string(panels_.keys) +
                " keys, " + std::to_string(panels_.count()) + " heads");
      return out_;
    }
    if (panels_.rank == 2)
      head();
    else
      thumbnails();
    scale();
    for (const std::string& note : panels_.notes) paragraph("note: " + note);
    return out_;
  }

 private:
  bool colored() const { return options_.color != TerminalColor::none; }
  bool ascii() const { return !options_.unicode; }
  double level(double weight) const { return std::clamp(weight / panels_.maximum, 0.0, 1.0); }
  Rgb ground(double weight) const { return std::isfinite(weight) ? terminal_color(level(weight)) : kNotFinite; }
  char digit(double weight) const {
    if (!std::isfinite(weight)) return '?';
    // A float 0.7 is a little less, and a 7 all the same.
    return static_cast<char>('0' + std::clamp(static_cast<int>(level(weight) * 10 + 1e-6), 0, 9));
  }

  // Wraps at spaces; a word wider than the terminal is cut.
  void paragraph(std::string_view text) {
    std::string line;
    while (!text.empty()) {
      const size_t space = text.find(' ');
      const std::string word = truncate(text.substr(0, space), options_.width, ascii());
      text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
      if (!line.empty() && display_width(line) + 1 + display_width(word) > options_.width) {
        out_ += line + "\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    if (!line.empty()) out_ += line + "\n";
  }

  // A right to left word would pull the cells after it to its left: a left-to-right mark ends its reach.
  void label(const std::string& text) { pen_.write(has_right_to_left(text) ? text + "\u200E" : text); }

  int widest(const std::vector<std::string>& labels) const {
    int width = 1;
    for (const std::string& text : labels) width = std::max(width, display_width(text));
    return width;
  }

  void cell(double weight, int width) {
    std::string text(static_cast<size_t>(width), ' ');
    if (!colored()) {
      text[static_cast<size_t>((width - 1) / 2)] = digit(weight);
      pen_.write(text);
      return;
    }
    const Rgb color = ground(weight);
    if (width >= kPerCentCell) {
      const std::string number =
          std::isfinite(weight) ? std::to_string(std::lround(std::clamp(weight, -1e6, 1e6) * 100)) : "?";
      if (number != "0" && static_cast<int>(number.size()) <= width - 1)
        text.replace(static_cast<size_t>(width) / 2 - (number.size() - 1) / 2 - 1 + (width % 2), number.size(), number);
    }
    const bool blank = text.find_first_not_of(' ') == std::string::npos;
    const Rgb contrast = is_light(color) ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
    pen_.write(text, blank ? std::nullopt : std::optional(contrast), color);
  }

  void head() {
    label_width_ = std::min(widest(panels_.query_labels), std::max(8, options_.width / 3));
    const int room = options_.width - label_width_ - 1;
    const int widest_key = widest(panels_.key_labels);
    const int wide_cell = std::clamp(widest_key, 3, 16) + 1;
    if (panels_.keys * wide_cell <= room) {
      per_cent_ = wide_cell >= kPerCentCell;
      labels_above(wide_cell);
      rows(0, panels_.keys, wide_cell);
      return;
    }
    // Narrow cells under a staircase of labels, in as many blocks as the width asks for.
    constexpr int cell_width = 2;
    const int last_label = std::min({widest_key, 16, std::max(2, room / 2)});
    const int64_t keys_a_block = std::max(1, (room - last_label) / cell_width + 1);
    for (int64_t first = 0; first < panels_.keys; first += keys_a_block) {
      if (first > 0) out_ += '\n';
      const int64_t end = std::min(first + keys_a_block, panels_.keys);
      staircase(first, end, cell_width, room);
      rows(first, end, cell_width);
    }
  }

  void labels_above(int cell_width) {
    pen_.spaces(label_width_ + 1);
    for (const std::string& key : panels_.key_labels) {
      const std::string text = truncate(key, cell_width - 1, ascii());
      const int free = cell_width - display_width(text);
      pen_.spaces(free / 2);
      label(text);
      pen_.spaces(free - free / 2);
    }
    pen_.end_line();
  }

  // Key j's label starts above its cell; a bar leads down from it past the labels of the keys to its right.
  void staircase(int64_t first, int64_t end, int cell_width, int room) {
    for (int64_t key = first; key < end; ++key) {
      pen_.spaces(label_width_ + 1);
      for (int64_t earlier = first; earlier < key; ++earlier) {
        pen_.write(options_.unicode ? "│" : "|");
        pen_.spaces(cell_width - 1);
      }
      const int used = static_cast<int>(key - first) * cell_width;
      label(truncate(panels_.key_labels[static_cast<size_t>(key)], room - used, ascii()));
      pen_.end_line();
    }
  }

  void rows(int64_t first, int64_t end, int cell_width) {
    for (int64_t query = 0; query < panels_.queries; ++query) {
      const std::string text = truncate(panels_.query_labels[static_cast<size_t>(query)], label_width_, ascii());
      pen_.spaces(label_width_ - display_width(text));
      label(text);
      pen_.spaces(1);
      for (int64_t key = first; key < end; ++key) cell(panels_.panel(0)[query * panels_.keys + key], cell_width);
      pen_.end_line();
    }
  }

  void thumbnails() {
    pool(&panels_, std::max(12, (options_.width - 6) / 4));
    for (int64_t layer = 0; layer < panels_.layers; ++layer) {
      if (panels_.rank == 4) paragraph("layer " + std::to_string(layer + 1));
      const int title_width = display_width("head " + std::to_string(panels_.heads));
      const int width = std::max(static_cast<int>(panels_.keys), title_width) + 2;
      const int64_t across = std::max(1, (options_.width + 2) / width);
      for (int64_t head = 0; head < panels_.heads; head += across)
        thumbnail_band(layer * panels_.heads, head, std::min(head + across, panels_.heads), width);
    }
  }

  void thumbnail_band(int64_t base, int64_t first, int64_t end, int width) {
    for (int64_t head = first; head < end; ++head) {
      const std::string name = "head " + std::to_string(head + 1);
      pen_.write(name);
      pen_.spaces(width - static_cast<int>(name.size()));
    }
    pen_.end_line();
    const bool halves = colored() && options_.unicode;  // an upper half block: ink above, ground below
    for (int64_t query = 0; query < panels_.queries; query += halves ? 2 : 1) {
      for (int64_t head = first; head < end; ++head) {
        const double* row = panels_.panel(base + head) + query * panels_.keys;
        for (int64_t key = 0; key < panels_.keys; ++key) {
          if (!colored())
            pen_.write(std::string(1, digit(row[key])));
          else if (!halves)
            pen_.write(" ", {}, ground(row[key]));
          else if (query + 1 < panels_.queries)
            pen_.write("▀", ground(row[key]), ground(row[panels_.keys + key]));
          else
            pen_.write("▀", ground(row[key]));
        }
        pen_.spaces(width - static_cast<int>(panels_.keys));
      }
      pen_.end_line();
    }
  }

  void scale() {
    if (!colored()) {
      paragraph("scale: 0 below " + format_weight(panels_.maximum / 10) + ", 9 from " +
                format_weight(panels_.maximum * 0.9));
      return;
    }
    const std::string begin = "scale: 0 ";
    std::string end = " " + format_weight(panels_.maximum);
    if (per_cent_ && begin.size() + end.size() + 24 <= static_cast<size_t>(options_.width)) end += ", cells in %";
    const int steps = std::clamp(options_.width - static_cast<int>(begin.size() + end.size()), 2, 10);
    pen_.write(begin);
    for (int i = 0; i < steps; ++i) pen_.write(" ", {}, terminal_color(static_cast<double>(i) / (steps - 1)));
    pen_.write(end);
    pen_.end_line();
  }

  Panels panels_;
  TerminalOptions options_;
  std::string out_;
  Pen pen_;
  int label_width_ = 0;
  bool per_cent_ = false;
};

}  // namespace

std::string render_terminal(const AttentionMap& map, const TerminalOptions& options) {
  return TerminalMap(make_panels(map, "render_terminal", options.maximum, !options.unicode), options).draw();
}

TerminalOptions detect_terminal(bool is_terminal, int columns,
                                const std::function<const char*(const char*)>& environment) {
  const auto variable = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value ? value : "");
  };
  TerminalOptions options;
  if (columns <= 0) columns = std::atoi(variable("COLUMNS").c_str());
  if (columns > 0) options.width = std::min(columns, 10000);

  std::string locale = variable("LC_ALL");
  if (locale.empty()) locale = variable("LC_CTYPE");
  if (locale.empty()) locale = variable("LANG");
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  options.unicode = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;

  const std::string term = variable("TERM");
  if (!is_terminal || !variable("NO_COLOR").empty() || term.empty() || term == "dumb" || term.starts_with("vt"))
    return options;
  const std::string color = variable("COLORTERM");
  options.color = color == "truecolor" || color == "24bit" || term.ends_with("-direct") ? TerminalColor::true_color
                                                                                        : TerminalColor::palette256;
  return options;
}

TerminalOptions detect_terminal(int fd) {
  const bool is_terminal = isatty(fd) == 1;
  winsize size{};
  const int columns = is_terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return detect_terminal(is_terminal, columns, [](const char* name) { return std::getenv(name); });
}

}  // namespace heed::inline v0
