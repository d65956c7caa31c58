// Scratch memory of a call: one slot for each thread that runs tiles, from the caller's workspace or from the pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/memory.h"
#include "heed/executor.h"
#include "heed/workspace.h"

namespace heed::inline v0 {

class WorkspaceAccess {
 public:
  /// At least `bytes`; what stood there is lost.
  static std::shared_ptr<void> memory(Workspace* workspace, int64_t bytes) {
    const auto wanted = static_cast<size_t>(bytes);
    if (!workspace) return allocate(wanted);
    if (workspace->bytes_ < wanted) {
      workspace->memory_ = allocate(wanted);
      workspace->bytes_ = wanted;
    }
    return workspace->memory_;
  }
};

/// Slots of equal size, taken and given back by tiles.
class ScratchSlots {
 public:
  /// As many slots as can run at once: threads, or tiles where there are fewer. `shared` bytes stand in front.
  ScratchSlots(Workspace* workspace, int64_t bytes, int64_t tiles, Executor& executor, int64_t shared = 0)
      : bytes_((bytes + kStep - 1) / kStep * kStep), shared_((shared + kStep - 1) / kStep * kStep) {
    const int64_t slots = std::max<int64_t>(1, std::min<int64_t>({tiles, executor.threads(), kWords * 64}));
    words_ = (slots + 63) / 64;
    for (int64_t w = 0; w < words_; ++w) {
      const int64_t n = std::min<int64_t>(slots - 64 * w, 64);
      free_[w].store(n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1, std::memory_order_relaxed);
    }
    memory_ = WorkspaceAccess::memory(workspace, shared_ + slots * bytes_);
  }
  char* shared() const { return static_cast<char*>(memory_.get()); }

 private:
  friend class Scratch;
  static constexpr auto kStep = static_cast<int64_t>(kAlignment);
  static constexpr int64_t kWords = 16;  // of 64 slots each; threads beyond them wait
  std::shared_ptr<void> memory_;
  int64_t bytes_, shared_, words_ = 1;
  std::atomic<uint64_t> free_[kWords];
};

/// One slot for as long as it lives, handed out in aligned pieces.
class Scratch {
 public:
  explicit Scratch(ScratchSlots& slots) : slots_(slots) {
    while (!take_slot()) std::this_thread::yield();  // an executor that runs more tiles at once than threads()
    next_ = slots_.shared() + slots_.shared_ + slot_ * slots_.bytes_;
  }
  ~Scratch() { slots_.free_[slot_ / 64].fetch_or(uint64_t{1} << slot_ % 64, std::memory_order_release); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* take(int64_t n) {
    T* const piece = reinterpret_cast<T*>(next_);
    next_ += bytes_of<T>(n);
    return piece;
  }
  /// Bytes that take<T>(n) uses up. A line more than it needs: pieces of 4 KB side by side would make a load wait for a
  /// store to another one, and fall on the same sets of the first-level cache.
  template <class T>
  static int64_t bytes_of(int64_t n) {
    constexpr auto kStep = static_cast<int64_t>(kAlignment);
    return n == 0 ? 0 : (n * static_cast<int64_t>(sizeof(T)) + kStep - 1) / kStep * kStep + kStep;
  }

 private:
  bool take_slot() {
    for (int64_t w = 0; w < slots_.words_; ++w) {
      uint64_t free = slots_.free_[w].load(std::memory_order_relaxed);
      while (free != 0) {
        const int bit = std::countr_zero(free);
        if (!slots_.free_[w].compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) continue;
        slot_ = 64 * w + bit;
        return true;
      }
    }
    return false;
  }

  ScratchSlots& slots_;
  int64_t slot_ = 0;
  char* next_;
};

}  // namespace heed::inline v0
