#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/view.h"
#include "view/label.h"

namespace heed::cli {
namespace {

std::optional<int> width_of_standard_error() {
  const char* term = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || term == nullptr || std::string_view(term) == "dumb") return {};
  return detect_terminal(STDERR_FILENO).width;
}

// One column stays free: some terminals wrap as soon as the last is written.
std::vector<std::string> fold(std::string_view text, int width) {
  const int room = std::max(width - 1, 1);
  std::vector<std::string> rows(1);
  while (!text.empty()) {
    const size_t gap = text.find("  ");
    const std::string field = truncate(text.substr(0, gap), room);
    text = gap == std::string_view::npos ? std::string_view{} : text.substr(gap + 2);
    if (rows.back().empty())
      rows.back() = field;
    else if (display_width(rows.back()) + 2 + display_width(field) <= room)
      rows.back() += "  " + field;
    else
      rows.push_back(field);
  }
  return rows;
}

}  // namespace

ProgressLine::ProgressLine(double seconds) : ProgressLine(std::cerr, width_of_standard_error, seconds) {}

ProgressLine::ProgressLine(std::ostream& out, std::function<std::optional<int>()> width, double seconds,
                           std::function<Clock::time_point()> now)
    : out_(out),
      width_(std::move(width)),
      now_(std::move(now)),
      pause_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

ProgressLine::~ProgressLine() {
  if (!held_back_.empty()) plain(held_back_);
  clear();
}

void ProgressLine::update(const std::string& text) {
  const std::optional<int> width = width_();
  if (!width) {
    if (printed_ && now_() - *printed_ < pause_)
      held_back_ = text;
    else
      plain(text);
    return;
  }
  clear();
  const std::vector<std::string> rows = fold(printable(text), *width);
  for (size_t i = 0; i < rows.size(); ++i) out_ << (i > 0 ? "\n" : "") << rows[i];
  out_ << std::flush;
  rows_ = static_cast<int>(rows.size());
}

void ProgressLine::print(const std::string& text) {
  clear();
  out_ << printable(text) << std::endl;
}

void ProgressLine::clear() {
  if (rows_ == 0) return;
  out_ << "\r\033[K";
  for (int row = 1; row < rows_; ++row) out_ << "\033[A\033[K";
  out_ << std::flush;
  rows_ = 0;
}

void ProgressLine::plain(const std::string& text) {
  out_ << printable(text) << std::endl;
  printed_ = now_();
  held_back_.clear();
}

}  // namespace heed::cli
