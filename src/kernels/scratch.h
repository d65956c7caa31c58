// Memory of a kernel for the time of a call.
#pragma once

#include <cstdint>
#include <memory>

#include "core/memory.h"

namespace heed::inline v0 {

/// Room for `count` numbers, not set, from the pool behind Tensor.
template <class T>
class ScratchArray {
 public:
  explicit ScratchArray(int64_t count) : memory_(allocate(static_cast<size_t>(count) * sizeof(T))) {}
  T* get() const { return static_cast<T*>(memory_.get()); }
  T& operator[](int64_t i) const { return get()[i]; }

 private:
  std::shared_ptr<void> memory_;
};

}  // namespace heed::inline v0
