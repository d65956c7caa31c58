// A timeline of a process: operations, messages, and waiting for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// Spans of time, noted from any thread. ProfileScope notes operations where Profile::timeline is set, timed() the
/// messages of a communicator.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Kind : uint8_t {
    operation,
    wait,     // a thread stands still until a message has come and its own has left
    message,  // from its begin until no thread waits for it
  };
  struct Span {
    Kind kind{};
    std::string name{};
    int thread = 0;                  // 0, 1, ... in the order in which they are first noted
    double begin = 0, end = 0;       // seconds since begin()
    int to = -1, from = -1;          // ranks of a message; -1: none
    int64_t sent = 0, received = 0;  // bytes of it
  };

  /// Drops all spans and records those that begin from now on.
  void begin();
  void end() { notes_ = false; }
  bool notes() const { return notes_; }
  /// `span` without its thread and times.
  void add(Span span, Clock::time_point begin, Clock::time_point end);
  /// In the order of their ends.
  std::vector<Span> spans() const;

 private:
  std::atomic<bool> notes_{false};
  mutable std::mutex mutex_;
  Clock::time_point start_{};
  std::vector<std::thread::id> threads_;
  std::vector<Span> spans_;
};

}  // namespace heed::inline v0
