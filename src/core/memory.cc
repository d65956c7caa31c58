#include "core/memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace heed::inline v0 {
namespace {

// Eight classes an octave: at most 12.5 % is wasted, and batches of nearly the same size share blocks.
size_t size_class(size_t bytes) {
  bytes = std::max(bytes, kAlignment);
  const size_t step = std::max(std::bit_floor(bytes) / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

class Pool {
 public:
  void* take(size_t size) {
    {
      const std::lock_guard lock(mutex_);
      in_use_ += size;
      peak_ = std::max(peak_, in_use_);
      auto& blocks = free_[size];
      if (!blocks.empty()) {
        void* block = blocks.back();
        blocks.pop_back();
        cached_ -= size;
        return block;
      }
    }
    void* block = std::aligned_alloc(kAlignment, size);
    if (!block) {
      release();
      block = std::aligned_alloc(kAlignment, size);
    }
    if (!block) {
      const std::lock_guard lock(mutex_);
      in_use_ -= size;
      throw std::bad_alloc();
    }
    return block;
  }

  void give(void* block, size_t size) noexcept {
    {
      const std::lock_guard lock(mutex_);
      in_use_ -= size;
      // Never cache more than twice what was ever in use: shapes that never return must not pile up.
      if (cached_ + size <= 2 * peak_) {
        try {
          free_[size].push_back(block);
          cached_ += size;
          return;
        } catch (const std::bad_alloc&) {  // no room for the bookkeeping: give the block back instead
        }
      }
    }
    std::free(block);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_)
      for (void* block : blocks) std::free(block);
    free_.clear();
    cached_ = 0;
  }

  size_t in_use() {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  size_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
  size_t in_use_ = 0, cached_ = 0, peak_ = 0;
};

Pool& pool() {
  static Pool* const instance = new Pool;  // never destroyed: tensors with static lifetime may outlive it otherwise
  return *instance;
}

}  // namespace

std::shared_ptr<void> allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  return {pool().take(size), [size](void* block) { pool().give(block, size); }};
}

size_t memory_in_use() { return pool().in_use(); }
size_t peak_memory() { return pool().peak(); }
void reset_peak_memory() { pool().reset_peak(); }
void release_cached_memory() { pool().release(); }

}  // namespace heed::inline v0
