// Loaded before the C library (LD_PRELOAD): counts the allocations of a program and lets one, or all from one on, fail.
//   SHIM_COUNT=FILE   writes the number of allocations when the program ends
//   SHIM_FAIL=N       the N-th fails
//   SHIM_FROM=N       the N-th fails and all behind it
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

// glibc's own, under the names that stay when these are replaced: dlsym would allocate.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

long number(const char* name) {
  const char* value = getenv(name);
  return value ? atol(value) : 0;
}

std::atomic<long> calls{0};

// Forked children count on their own, and write nothing.
struct AtEnd {
  ~AtEnd() {
    const char* path = getenv("SHIM_COUNT");
    FILE* file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    fprintf(file, "%ld", calls.load());
    fclose(file);
  }
} at_end;

bool fails() {
  static const long one = number("SHIM_FAIL"), from = number("SHIM_FROM");
  const long call = ++calls;
  if (call == one || (from > 0 && call >= from)) {
    errno = ENOMEM;
    return true;
  }
  return false;
}

}  // namespace

extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return size > 0 && fails() ? nullptr : __libc_realloc(block, size); }
void* memalign(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  void* const found = memalign(alignment, size);
  if (!found) return ENOMEM;
  *block = found;
  return 0;
}
}
