// Progress of long work on standard error: on a terminal a line that is overwritten, elsewhere a plain line now and
// then.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

namespace heed::cli {

class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// On standard error. Where that is no terminal (or TERM=dumb), updates come out at most every `seconds`.
  explicit ProgressLine(double seconds = 5);
  /// With its surroundings given: the width in columns, asked for at each update, or none for plain lines.
  ProgressLine(std::ostream& out, std::function<std::optional<int>()> width, double seconds,
               std::function<Clock::time_point()> now = Clock::now);
  /// Takes the line off the terminal; elsewhere prints the last update if it was held back.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text` in place of the last update. Fields set apart by two spaces move to further rows where the terminal
  /// is too narrow for all.
  void update(const std::string& text);
  /// A line that stays.
  void print(const std::string& text);
  /// Takes the line off the terminal until the next update.
  void clear();

 private:
  void plain(const std::string& text);

  std::ostream& out_;
  std::function<std::optional<int>()> width_;
  std::function<Clock::time_point()> now_;
  Clock::duration pause_;
  int rows_ = 0;  // on the terminal now
  std::optional<Clock::time_point> printed_;
  std::string held_back_;
};

}  // namespace heed::cli
