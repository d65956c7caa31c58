// Ctrl-C while a computation runs without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace heed::python {
namespace nb = nanobind;

/// Asks Python now and then whether a signal's handler has raised an exception, as that of Ctrl-C does. Made where the
/// GIL is held, and in the thread that computes.
class Interrupt {
 public:
  /// Whether the computation is to end, which raise() is for then. Without the GIL; any thread may ask, that of the
  /// computation looks for signals, at most every 50 ms.
  bool pending() {
    using Clock = std::chrono::steady_clock;
    if (raised_ || std::this_thread::get_id() != thread_ || Clock::now() < next_) return raised_;
    next_ = Clock::now() + std::chrono::milliseconds(50);
    call([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
    return raised_;
  }
  /// Calls `f`, which may raise, with the GIL; not once something was raised. For the thread of the computation.
  template <class F>
  void call(F&& f) {
    if (raised_) return;
    const nb::gil_scoped_acquire gil;
    try {
      f();
    } catch (...) {
      error_ = std::current_exception();
      raised_ = true;
    }
  }
  /// Where something was raised, it goes on from here. With the GIL.
  void raise() const {
    if (raised_) std::rethrow_exception(error_);
  }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point next_{};
  std::atomic<bool> raised_ = false;
  std::exception_ptr error_;
};

}  // namespace heed::python
