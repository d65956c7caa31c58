// How far long work is, on standard error.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "heed/view.h"

namespace heed::cli {

/// Lines that stay, and on a terminal one below them that is overwritten. Silent with --quiet.
class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;
  using Terminal = std::function<std::optional<TerminalOptions>()>;

  /// On standard error.
  ProgressLine();
  /// With its surroundings given: the terminal, asked for at each line, or none.
  ProgressLine(std::ostream& out, Terminal terminal, std::function<Clock::time_point()> now = Clock::now);
  /// Takes the bar off the terminal.
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows how much is done (0 to 1; below 0 where nobody knows) as a bar with as many fields of `text` (set apart by
  /// two spaces) as the width has room for, in place of the last one. At most ten times a second; nothing where there
  /// is no terminal.
  void bar(double done, const std::string& text);
  /// A line that stays. Where the terminal is too narrow, its fields continue in further rows.
  void print(const std::string& text);
  /// Takes the bar off the terminal until the next one.
  void clear();

 private:
  std::ostream& out_;
  Terminal terminal_;
  std::function<Clock::time_point()> now_;
  bool shown_ = false;
  std::optional<Clock::time_point> drawn_;
};

}  // namespace heed::cli
