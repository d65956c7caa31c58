// Loaded before the C library (LD_PRELOAD): counts the calls by which a program changes files, and ends the program at
// one of them, or lets one fail.
//   SHIM_COUNT=FILE      writes the number of counted calls when the program ends
//   SHIM_KILL=N          SIGKILL before the N-th; half of what a write was given is written
//   SHIM_FAIL=N:ERRNO    the N-th fails
//   SHIM_DENY=NAME:ERRNO each call of flock, link or renameat2 fails
// Counted are open with O_CREAT, the first write to each of those files, fsync, rename, unlink, ftruncate and mkdir.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMostFiles = 4096;
std::atomic<long> calls{0};
std::atomic<bool> unwritten[kMostFiles];

template <class F>
F* next(const char* name, F*) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) next(#name, &name)

enum class Then { go, kill, fail };

Then count() {
  const long call = ++calls;
  if (const char* at = getenv("SHIM_KILL"); at && atol(at) == call) return Then::kill;
  if (const char* at = getenv("SHIM_FAIL"); at && atol(at) == call) {
    errno = atoi(strchr(at, ':') + 1);
    return Then::fail;
  }
  return Then::go;
}

bool fails() {
  const Then then = count();
  if (then == Then::kill) raise(SIGKILL);
  return then == Then::fail;
}

bool denied(const char* name) {
  const char* deny = getenv("SHIM_DENY");
  const size_t length = strlen(name);
  if (!deny || strncmp(deny, name, length) != 0 || deny[length] != ':') return false;
  errno = atoi(deny + length + 1);
  return true;
}

template <class Open>
int opened(int flags, Open open) {
  const bool creates = flags & O_CREAT;
  if (creates && fails()) return -1;
  const int fd = open();
  if (fd >= 0 && fd < kMostFiles) unwritten[fd] = creates;
  return fd;
}

mode_t mode_of(int flags, va_list list) { return flags & O_CREAT ? va_arg(list, mode_t) : 0; }

struct AtExit {
  ~AtExit() {
    const char* path = getenv("SHIM_COUNT");
    if (!path) return;
    if (FILE* file = fopen(path, "w")) {
      fprintf(file, "%ld\n", calls.load());
      fclose(file);
    }
  }
} at_exit;

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened(flags, [&] { return NEXT(open)(path, flags, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened(flags, [&] { return NEXT(openat)(directory, path, flags, mode); });
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (fd >= 0 && fd < kMostFiles && unwritten[fd].exchange(false)) {
    const Then then = count();
    if (then == Then::fail) return -1;
    if (then == Then::kill) {
      static_cast<void>(NEXT(write)(fd, data, bytes / 2) == 0);
      raise(SIGKILL);
    }
  }
  return NEXT(write)(fd, data, bytes);
}

int fsync(int fd) { return fails() ? -1 : NEXT(fsync)(fd); }
int ftruncate(int fd, off_t size) noexcept { return fails() ? -1 : NEXT(ftruncate)(fd, size); }
int mkdir(const char* path, mode_t mode) noexcept { return fails() ? -1 : NEXT(mkdir)(path, mode); }
int rename(const char* from, const char* to) noexcept { return fails() ? -1 : NEXT(rename)(from, to); }
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return fails() ? -1 : NEXT(renameat)(from_directory, from, to_directory, to);
}
int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  return denied("renameat2") || fails() ? -1 : NEXT(renameat2)(from_directory, from, to_directory, to, flags);
}
int unlink(const char* path) noexcept { return fails() ? -1 : NEXT(unlink)(path); }
int unlinkat(int directory, const char* path, int flags) noexcept {
  return fails() ? -1 : NEXT(unlinkat)(directory, path, flags);
}
int link(const char* from, const char* to) noexcept { return denied("link") ? -1 : NEXT(link)(from, to); }
int flock(int fd, int operation) noexcept { return denied("flock") ? -1 : NEXT(flock)(fd, operation); }

}  // extern "C"
