#include "heed/view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "heed/label.h"
#include "view/color_map.h"
#include "view/panels.h"
#include "view/terminal_pen.h"

namespace heed::inline v0 {
namespace {

constexpr Rgb kNotFinite = {128, 128, 128};
constexpr int kPerCentCell = 4;  // columns that have room for the weight in per cent

class TerminalMap {
 public:
  TerminalMap(Panels panels, const TerminalOptions& options)
      : panels_(std::move(panels)), options_(at_least_20_columns(options)), pen_(options_, &out_) {}

  std::string draw() {
    pen_.paragraph(panels_.title);
    if (panels_.count() == 0 || panels_.queries == 0 || panels_.keys == 0) {
      pen_.paragraph("no weights: " + std::to_string(panels_.queries) + " queries, " + std::to_string(panels_.keys) +
                     " keys, " + std::to_string(panels_.count()) + " heads");
      return out_;
    }
    if (panels_.rank == 2)
      head();
    else
      thumbnails();
    scale();
    for (const std::string& note : panels_.notes) pen_.paragraph("note: " + note);
    return out_;
  }

 private:
  bool colored() const { return options_.color != TerminalColor::none; }
  bool ascii() const { return !options_.unicode; }
  double level(double weight) const {
    return std::clamp((panels_.is_signed ? std::abs(weight) : weight) / panels_.maximum, 0.0, 1.0);
  }
  Rgb ground(double weight) const {
    if (!std::isfinite(weight)) return kNotFinite;
    return panels_.is_signed ? signed_terminal_color(weight / panels_.maximum) : terminal_color(level(weight));
  }
  char digit(double weight) const {
    if (!std::isfinite(weight)) return '?';
    // A float 0.7 is a little less, and a 7 all the same.
    const int tenths = std::clamp(static_cast<int>(level(weight) * 10 + 1e-6), 0, 9);
    return static_cast<char>(panels_.is_signed && weight < 0 && tenths > 0 ? 'a' + tenths - 1 : '0' + tenths);
  }

  void cell(double weight, int width) {
    std::string text(static_cast<size_t>(width), ' ');
    if (!colored()) {
      text[static_cast<size_t>((width - 1) / 2)] = digit(weight);
      pen_.write(text);
      return;
    }
    const Rgb color = ground(weight);
    if (per_cent_) {
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
    label_width_ = std::min(widest_of(panels_.query_labels), std::max(8, options_.width / 3));
    const int room = options_.width - label_width_ - 1;
    const int widest_key = widest_of(panels_.key_labels);
    const int wide_cell = std::clamp(widest_key, 3, 16) + 1;
    if (panels_.keys * wide_cell <= room) {
      per_cent_ = wide_cell >= kPerCentCell && panels_.shares;
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
      pen_.label(text);
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
      pen_.label(truncate(panels_.key_labels[static_cast<size_t>(key)], room - used, ascii()));
      pen_.end_line();
    }
  }

  void rows(int64_t first, int64_t end, int cell_width) {
    for (int64_t query = 0; query < panels_.queries; ++query) {
      const std::string text = truncate(panels_.query_labels[static_cast<size_t>(query)], label_width_, ascii());
      pen_.spaces(label_width_ - display_width(text));
      pen_.label(text);
      pen_.spaces(1);
      for (int64_t key = first; key < end; ++key) cell(panels_.panel(0)[query * panels_.keys + key], cell_width);
      pen_.end_line();
    }
  }

  void thumbnails() {
    pool(&panels_, std::max(12, (options_.width - 6) / 4));
    for (int64_t layer = 0; layer < panels_.layers; ++layer) {
      if (panels_.rank == 4) pen_.paragraph("layer " + std::to_string(layer + 1));
      const int width = std::max(static_cast<int>(panels_.keys), widest_of(panels_.head_labels)) + 2;
      const int64_t across = std::max(1, (options_.width + 2) / width);
      for (int64_t head = 0; head < panels_.heads; head += across)
        thumbnail_band(layer * panels_.heads, head, std::min(head + across, panels_.heads), width);
    }
  }

  void thumbnail_band(int64_t base, int64_t first, int64_t end, int width) {
    for (int64_t head = first; head < end; ++head) {
      const std::string& name = panels_.head_labels[static_cast<size_t>(head)];
      pen_.label(name);
      pen_.spaces(width - display_width(name));
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
      const std::string tenth = format_weight(panels_.maximum / 10), most = format_weight(panels_.maximum * 0.9);
      pen_.paragraph(panels_.is_signed ? "scale: 0 from -" + tenth + " to " + tenth + ", 9 from " + most +
                                             ", below 0 a to i for 1 to 9"
                                       : "scale: 0 below " + tenth + ", 9 from " + most);
      return;
    }
    const std::string begin =
        panels_.is_signed ? "scale: -" + format_weight(panels_.maximum) + " " : std::string("scale: 0 ");
    std::string end = " " + format_weight(panels_.maximum);
    if (per_cent_ && begin.size() + end.size() + 24 <= static_cast<size_t>(options_.width)) end += ", cells in %";
    pen_.scale(begin, end, panels_.is_signed);
  }

  Panels panels_;
  TerminalOptions options_;
  std::string out_;
  TerminalPen pen_;
  int label_width_ = 0;
  bool per_cent_ = false;
};

}  // namespace

std::string draw_terminal(Panels panels, const TerminalOptions& options) {
  return TerminalMap(std::move(panels), options).draw();
}

std::string render_terminal(const AttentionMap& map, const TerminalOptions& options) {
  return draw_terminal(make_panels(map, "render_terminal", options.maximum, !options.unicode), options);
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
