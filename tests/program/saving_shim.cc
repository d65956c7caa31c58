// Loaded before the C library (LD_PRELOAD): counts the calls by which a program changes files, and ends the program at
// one of them, or lets one fail.
//   SHIM_COUNT=FILE      writes the number of counted calls when the program ends
//   SHIM_KILL=N          SIGKILL before the N-th; half of what a write was given is written
//   SHIM_FAIL=N:ERRNO    the N-th fails
//   SHIM_DENY=NAME:ERRNO each call of flock, link or renameat2 fails
//   SHIM_LOSE=SUFFIX     before the first flock of a file with such a path somebody removes the file
//   SHIM_RENEW=SUFFIX    somebody replaces a file with such a path by a copy after each open of it for reading
//   SHIM_TRACE=FILE      appends a line for each call that has returned, its fields set apart by tabs: number, name,
//                        path, new path (rename, link), errno or 0
// Counted are open with O_CREAT, the first write to each of those files, fsync, fdatasync, rename, unlink, ftruncate
// and mkdir. Further writes and link are in the trace with the number 0.
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
#include <string>

namespace {

constexpr int kMostFiles = 4096;
std::atomic<long> calls{0};
std::atomic<bool> created[kMostFiles], unwritten[kMostFiles];
thread_local long counted;  // number of the call that this thread is in, 0 where it is not counted

template <class F>
F* next(const char* name, F*) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) next(#name, &name)

enum class Then { go, kill, fail };

Then count() {
  const long call = counted = ++calls;
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

std::string path_of(int fd) {
  char path[4096];
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return {path, length < 0 ? 0 : static_cast<size_t>(length)};
}

std::string path_of(int directory, const char* path) {
  return directory == AT_FDCWD || *path == '/' ? path : path_of(directory) + "/" + path;
}

int trace() {
  static const int file = [] {
    const char* path = getenv("SHIM_TRACE");
    return path ? NEXT(open)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  }();
  return file;
}

/// Writes down the call that has returned `done`; `paths` gives its two, the second one often empty.
template <class Done, class Paths>
Done traced(const char* name, Done done, Paths paths) {
  const int error = errno;
  if (trace() >= 0) dprintf(trace(), "%ld\t%s\t%s\t%d\n", counted, name, paths().c_str(), done < 0 ? error : 0);
  counted = 0;
  errno = error;
  return done;
}

int traced_at(const char* name, int done, int directory, const char* path) {
  return traced(name, done, [&] { return path_of(directory, path) + "\t"; });
}

int traced_pair(const char* name, int done, int from_directory, const char* from, int to_directory, const char* to) {
  return traced(name, done, [&] { return path_of(from_directory, from) + "\t" + path_of(to_directory, to); });
}

template <class Done>
Done traced_fd(const char* name, Done done, int fd) {
  return traced(name, done, [&] { return path_of(fd) + "\t"; });
}

bool ends_as(const std::string& path, const char* variable) {
  const char* suffix = getenv(variable);
  return suffix && path.ends_with(suffix);
}

/// Replaces the file behind `fd` by another one with the same content.
void renew(int fd) {
  const std::string path = path_of(fd), copy = path + ".copy";
  const int to = NEXT(open)(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  char part[4096];
  off_t at = 0;
  for (ssize_t bytes; (bytes = pread(fd, part, sizeof part, at)) > 0; at += bytes)
    if (NEXT(write)(to, part, static_cast<size_t>(bytes)) != bytes) abort();
  close(to);
  NEXT(rename)(copy.c_str(), path.c_str());
}

template <class Open>
int opened(int directory, const char* path, int flags, Open open) {
  const bool creates = flags & O_CREAT;
  const int fd = creates && fails() ? -1 : open();
  if (fd >= 0 && fd < kMostFiles) created[fd] = unwritten[fd] = creates;
  if (fd >= 0 && !creates && getenv("SHIM_RENEW") && ends_as(path_of(fd), "SHIM_RENEW")) renew(fd);
  return creates ? traced_at("open", fd, directory, path) : fd;
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
  return opened(AT_FDCWD, path, flags, [&] { return NEXT(open)(path, flags, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened(directory, path, flags, [&] { return NEXT(openat)(directory, path, flags, mode); });
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (fd < 0 || fd >= kMostFiles || !created[fd]) return NEXT(write)(fd, data, bytes);
  const Then then = unwritten[fd].exchange(false) ? count() : Then::go;
  if (then == Then::kill) {
    static_cast<void>(NEXT(write)(fd, data, bytes / 2) == 0);
    raise(SIGKILL);
  }
  return traced_fd("write", then == Then::fail ? -1 : NEXT(write)(fd, data, bytes), fd);
}

int fsync(int fd) { return traced_fd("fsync", fails() ? -1 : NEXT(fsync)(fd), fd); }
int fdatasync(int fd) { return traced_fd("fdatasync", fails() ? -1 : NEXT(fdatasync)(fd), fd); }
int ftruncate(int fd, off_t size) noexcept {
  return traced_fd("ftruncate", fails() ? -1 : NEXT(ftruncate)(fd, size), fd);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return traced_at("mkdir", fails() ? -1 : NEXT(mkdir)(path, mode), AT_FDCWD, path);
}
int rename(const char* from, const char* to) noexcept {
  return traced_pair("rename", fails() ? -1 : NEXT(rename)(from, to), AT_FDCWD, from, AT_FDCWD, to);
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  const int done = fails() ? -1 : NEXT(renameat)(from_directory, from, to_directory, to);
  return traced_pair("rename", done, from_directory, from, to_directory, to);
}
int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  const int done = denied("renameat2") || fails() ? -1 : NEXT(renameat2)(from_directory, from, to_directory, to, flags);
  return traced_pair("rename", done, from_directory, from, to_directory, to);
}
int unlink(const char* path) noexcept { return traced_at("unlink", fails() ? -1 : NEXT(unlink)(path), AT_FDCWD, path); }
int unlinkat(int directory, const char* path, int flags) noexcept {
  return traced_at("unlink", fails() ? -1 : NEXT(unlinkat)(directory, path, flags), directory, path);
}
int link(const char* from, const char* to) noexcept {
  return traced_pair("link", denied("link") ? -1 : NEXT(link)(from, to), AT_FDCWD, from, AT_FDCWD, to);
}
int flock(int fd, int operation) noexcept {
  static std::atomic<bool> lost{false};
  if (const std::string path = path_of(fd); ends_as(path, "SHIM_LOSE") && !lost.exchange(true))
    NEXT(unlink)(path.c_str());
  return denied("flock") ? -1 : NEXT(flock)(fd, operation);
}

}  // extern "C"
