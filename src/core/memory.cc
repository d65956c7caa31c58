#include "core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "heed/error.h"

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
  struct Block {
    void* data;
    size_t size;  // of the block, of which `asked` are wanted
    size_t asked;
  };

  Block take(size_t asked) {
    {
      const std::lock_guard lock(mutex_);
      in_use_ += asked;
      peak_ = std::max(peak_, in_use_);
      // A larger block serves, too: batches of other lengths ask for slightly other sizes in every step.
      for (auto it = free_.lower_bound(asked); it != free_.end() && it->first <= asked + asked / 2; ++it) {
        auto& blocks = it->second;
        if (blocks.empty()) continue;
        void* data = blocks.back();
        blocks.pop_back();
        cached_ -= it->first;
        return {data, it->first, asked};
      }
      ++misses_;
    }
    void* data = from_system(asked);
    if (!data) {
      release();
      data = from_system(asked);
    }
    if (!data) {
      const std::lock_guard lock(mutex_);
      in_use_ -= asked;
      throw MemoryError("memory: " + std::to_string(asked) + " bytes more are not to be had, " +
                        std::to_string(in_use_) + " are in use; try a smaller batch or model, or shorter inputs");
    }
    return {data, asked, asked};
  }

  void give(const Block& block) noexcept {
    {
      const std::lock_guard lock(mutex_);
      in_use_ -= block.asked;
      // Never cache more than twice what was ever in use: shapes that never return must not pile up.
      if (cached_ + block.size <= 2 * peak_) {
        try {
          free_[block.size].push_back(block.data);
          cached_ += block.size;
          return;
        } catch (const std::bad_alloc&) {  // no room for the bookkeeping: give the block back instead
        }
      }
    }
    std::free(block.data);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_)
      for (void* block : blocks) std::free(block);
    free_.clear();
    cached_ = 0;
  }

  std::mutex& mutex() { return mutex_; }

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
  size_t misses() {
    const std::lock_guard lock(mutex_);
    return misses_;
  }

 private:
  // Large blocks on large pages, where the system has them on request: fewer faults and fewer misses of the TLB.
  static void* from_system(size_t size) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const bool huge = size >= 2 * kHugePage;
    const size_t alignment = huge ? kHugePage : kAlignment;
    void* const data = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
#ifdef MADV_HUGEPAGE
    if (huge && data) madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
    return data;
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  size_t in_use_ = 0, cached_ = 0, peak_ = 0, misses_ = 0;
};

Pool& pool() {
  static Pool* const instance = new Pool;  // never destroyed: tensors with static lifetime may outlive it otherwise
  return *instance;
}

}  // namespace

std::shared_ptr<void> allocate(size_t bytes) {
  const Pool::Block block = pool().take(size_class(bytes));
  return {block.data, [block](void*) { pool().give(block); }};
}

size_t memory_in_use() { return pool().in_use(); }
size_t peak_memory() { return pool().peak(); }
size_t memory_misses() { return pool().misses(); }
void reset_peak_memory() { pool().reset_peak(); }
void release_cached_memory() { pool().release(); }
void lock_memory() { pool().mutex().lock(); }
void unlock_memory() { pool().mutex().unlock(); }

}  // namespace heed::inline v0
