// Memory of one run of tiles: one block from the pool, handed out in aligned pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/memory.h"

namespace heed::inline v0 {

class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : memory_(allocate(static_cast<size_t>(bytes))), next_(static_cast<char*>(memory_.get())) {}
  template <class T>
  T* take(int64_t n) {
    T* const piece = reinterpret_cast<T*>(next_);
    next_ += bytes_of<T>(n);
    return piece;
  }
  /// Bytes that take<T>(n) uses up.
  template <class T>
  static int64_t bytes_of(int64_t n) {
    constexpr auto kStep = static_cast<int64_t>(kAlignment);
    return (n * static_cast<int64_t>(sizeof(T)) + kStep - 1) / kStep * kStep;
  }

 private:
  std::shared_ptr<void> memory_;
  char* next_;
};

}  // namespace heed::inline v0
