#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/console.h"
#include "heed/label.h"

namespace heed::cli {
namespace {

constexpr int kBarWidth = 24;  // columns, where the terminal is wide enough
constexpr std::chrono::milliseconds kBarPause(100);

std::optional<TerminalOptions> terminal_of_standard_error() {
  const char* term = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || term == nullptr || std::string_view(term) == "dumb") return {};
  return terminal(STDERR_FILENO);
}

std::vector<std::string> fields_of(std::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    const size_t gap = text.find("  ");
    fields.emplace_back(text.substr(0, gap));
    text = gap == std::string_view::npos ? std::string_view{} : text.substr(gap + 2);
  }
  return fields;
}

// One column stays free: some terminals wrap as soon as the last is written.
int room_of(int width) { return std::max(width - 1, 1); }

std::string fold(std::string_view text, int width) {
  std::string rows;
  int columns = 0;  // of the last row
  for (const std::string& field : fields_of(text)) {
    const int more = display_width(field);
    const bool fits = columns + 2 + more <= room_of(width);
    if (columns > 0) rows += fits ? "  " : "\n";
    columns = columns > 0 && fits ? columns + 2 + more : more;
    rows += field;
  }
  return rows;
}

std::string repeat(const char* text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// " 42% [=====>      ]"
std::string drawn_bar(double done, const TerminalOptions& terminal) {
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kBarWidth);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d%% ", static_cast<int>(std::clamp(done, 0.0, 1.0) * 100));
  const bool colour = terminal.color != TerminalColor::none;
  const std::string full = repeat(terminal.unicode ? "━" : "=", filled),
                    rest = repeat(terminal.unicode ? (colour ? "━" : " ") : "-", kBarWidth - filled);
  if (!colour) return percent + ("[" + full + rest) + "]";
  return percent + ("\033[32m" + full + "\033[90m" + rest) + "\033[0m";
}

}  // namespace

ProgressLine::ProgressLine() : ProgressLine(std::cerr, terminal_of_standard_error) {}

ProgressLine::ProgressLine(std::ostream& out, Terminal terminal, std::function<Clock::time_point()> now)
    : out_(out), terminal_(std::move(terminal)), now_(std::move(now)) {}

void ProgressLine::bar(double done, const std::string& text) {
  if (console().quiet) return;
  const std::optional<TerminalOptions> terminal = terminal_();
  if (!terminal || (drawn_ && now_() - *drawn_ < kBarPause)) return;
  drawn_ = now_();
  const int room = room_of(terminal->width), bar_columns = kBarWidth + 7;
  std::string row;
  int columns = 0;
  if (done >= 0 && bar_columns < room) row = drawn_bar(done, *terminal), columns = bar_columns;
  for (const std::string& field : fields_of(printable(text))) {
    const int more = (columns > 0 ? 2 : 0) + display_width(field);
    if (columns + more > room) break;
    row += (columns > 0 ? "  " : "") + field;
    columns += more;
  }
  clear();
  out_ << row << std::flush;
  shown_ = true;
}

void ProgressLine::print(const std::string& text) {
  if (console().quiet) return;
  clear();
  const std::optional<TerminalOptions> terminal = terminal_();
  out_ << (terminal ? fold(printable(text), terminal->width) : printable(text)) << std::endl;
}

void ProgressLine::clear() {
  if (shown_) out_ << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace heed::cli
