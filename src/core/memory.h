// The pool behind Tensor: freed blocks are kept by size class and handed out again, since training asks for the same
// sizes every step and fresh pages from the system cost more than most kernels.
#pragma once

#include <cstddef>
#include <memory>

namespace heed::inline v0 {

inline constexpr size_t kAlignment = 64;

/// At least `bytes` of 64-byte aligned memory, not zeroed. Throws MemoryError. Thread-safe.
std::shared_ptr<void> allocate(size_t bytes);

/// Bytes handed out now, and the most ever handed out since reset_peak_memory().
size_t memory_in_use();
size_t peak_memory();
void reset_peak_memory();
/// Blocks so far that no freed one could serve and the system was asked for.
size_t memory_misses();
/// Gives the blocks that nobody uses back to the system.
void release_cached_memory();

/// Around a fork(): no other thread is in the pool meanwhile.
void lock_memory();
void unlock_memory();

}  // namespace heed::inline v0
