// The threads that all calls from Python share.
#pragma once

#include <memory>
#include <mutex>

#include "heed/executor.h"

namespace heed::python {

/// Each call keeps the executor that it began with, so that the number may change while others compute. Never
/// destroyed: threads of Python may compute while the process ends.
class Threads {
 public:
  static Threads& instance() {
    static auto* const value = new Threads;
    return *value;
  }
  std::shared_ptr<Executor> executor() const {
    const std::lock_guard lock(mutex_);
    return executor_;
  }
  /// As make_executor(). Throws ShapeError.
  void set(int threads) {
    std::shared_ptr<Executor> made = make_executor(threads);
    set_threads(threads);  // what layers and models use
    const std::lock_guard lock(mutex_);
    executor_.swap(made);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Executor> executor_ = make_executor(0);
};

}  // namespace heed::python
