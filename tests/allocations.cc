#include "tests/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> g_bytes{0};
std::atomic<int64_t> g_calls{0}, g_blocks{0};

void* counted_or_null(size_t bytes, size_t alignment) noexcept {
  g_bytes += bytes;
  ++g_calls;
  return alignment > alignof(std::max_align_t) ? ::memalign(alignment, bytes) : std::malloc(bytes);
}

void* counted(size_t bytes, size_t alignment) {
  if (void* memory = counted_or_null(bytes, alignment)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t bytes) { return counted(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

// Stands before the C library's.
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  ++g_blocks;
  return ::memalign(alignment, bytes);
}

namespace heed::test {

size_t allocated_bytes() { return g_bytes; }
int64_t allocations() { return g_calls; }
int64_t aligned_blocks() { return g_blocks; }

}  // namespace heed::test
