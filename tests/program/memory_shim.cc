// Loaded before the C library (LD_PRELOAD): counts the allocations of a program and lets one, or all from one on, fail.
//   SHIM_COUNT=FILE   writes the number of allocations when the program ends
//   SHIM_FAIL=N       the N-th fails
//   SHIM_FROM=N       the N-th fails and all behind it
//   SHIM_EACH=N       each N-th in turn, in a copy of the process that goes on from there in a copy of the directory,
//                     SHIM_ROOM: there it fails, or with SHIM_ALL=1 all from it on. How each copy ends is a line of the
//                     file SHIM_LOG: number, wait status, files that it made, changed, left or (-) removed, error,
//                     between tabs. The process itself goes on undisturbed. Where it is not alone, the line is "left
//                     out".
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

// glibc's own, under the names that stay when these are replaced: dlsym would allocate.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

namespace fs = std::filesystem;

// Constant: allocations begin before this file's own constructors.
constinit std::atomic<long> calls{0};
constinit long one = 0, from = 0, each = 0;  // a copy of the process sets its own
constinit thread_local bool counts = true;   // not what this file allocates itself

long number(const char* name) {
  const char* value = getenv(name);
  return value ? atol(value) : 0;
}

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

// No other thread, no child and not one: a copy would be without the threads, and read from the child's pipe.
bool alone() {
  static const pid_t first_process = getpid();
  struct stat tasks;
  siginfo_t child;
  return getpid() == first_process && stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3 &&
         waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

// Sizes and times of change. A file that comes and goes is none.
std::map<std::string, std::string> files_below(const fs::path& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    struct stat status;
    lstat(entry.path().c_str(), &status);
    found[entry.path().lexically_relative(directory)] =
        entry.is_directory() ? ""
                             : std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                                   std::to_string(status.st_mtim.tv_nsec);
  }
  return found;
}

// An open file that is shared with the process has its position in common with it: each is opened anew, and those below
// the directory in its copy.
void open_files_anew(const fs::path& directory, const fs::path& copy) {
  for (int file = 0; file < 64; ++file) {
    char target[4096];
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    const ssize_t length = readlink(name.c_str(), target, sizeof target);
    if (length <= 0 || target[0] != '/') continue;
    const fs::path path(std::string(target, static_cast<size_t>(length)));
    const fs::path below = path.lexically_relative(directory);
    const bool ours = !below.empty() && *below.begin() != "..";
    struct stat status;
    if (fstat(file, &status) != 0 || !(ours || S_ISREG(status.st_mode))) continue;
    const int flags = fcntl(file, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC);
    const int again = open(ours ? (copy / below).c_str() : name.c_str(), flags);
    if (again < 0) continue;  // deleted: its position stays common
    lseek(again, lseek(file, 0, SEEK_CUR), SEEK_SET);
    dup3(again, file, (fcntl(file, F_GETFD) & FD_CLOEXEC) ? O_CLOEXEC : 0);
    close(again);
  }
}

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find_first_of("\n\t", at)) != std::string::npos; at += 2)
    text.replace(at, 1, text[at] == '\n' ? "\\n" : "\\t");
  return text;
}

// One write, so that lines stay whole.
void log(long call, const std::string& text) {
  const std::string line = std::to_string(call) + "\t" + text + "\n";
  const int file = open(getenv("SHIM_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(99);
  close(file);
}

// In a copy of the process, which gets another to look at: returns in that one, where the call is to fail.
void look_at_copy(long call) {
  const fs::path directory = fs::current_path(), room = getenv("SHIM_ROOM"), said = room.string() + ".said";
  fs::remove_all(room);
  fs::copy(directory, room, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  open_files_anew(directory, room);
  fs::current_path(room);
  const auto before = files_below(room);
  const pid_t copy = _Fork();
  if (copy == 0) {
    dup2(open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    alarm(60);  // hangs
    (number("SHIM_ALL") ? from : one) = call;
    return;
  }
  int status = 0;
  waitpid(copy, &status, 0);
  auto after = files_below(room);
  std::string changed;
  const auto add = [&](const std::string& path) { changed += (changed.empty() ? "" : ",") + path; };
  for (const auto& [path, what] : before) {
    const auto now = after.extract(path);
    if (!now) add("-" + path);
    const bool left_behind = path.find(".heed-") != std::string::npos;  // by whoever had made it
    if (now && (now.mapped() != what || left_behind)) add(path);
  }
  for (const auto& [path, what] : after) add(path);
  std::string error(static_cast<size_t>(fs::file_size(said)), '\0');
  const int file = open(said.c_str(), O_RDONLY | O_CLOEXEC);
  if (read(file, error.data(), error.size()) != static_cast<ssize_t>(error.size())) _exit(97);
  log(call, std::to_string(status) + "\t" + changed + "\t" + one_line(error));
  _exit(0);
}

void try_copy(long call) {
  const int error = errno;
  counts = false;
  if (!alone()) {
    log(call, "left out");
  } else if (const pid_t copy = _Fork(); copy == 0) {  // without handlers of forks: this thread may hold their locks
    look_at_copy(call);
  } else {
    int status = 0;
    if (copy < 0 || waitpid(copy, &status, 0) != copy || status != 0) _exit(98);
  }
  counts = true;
  errno = error;
}

bool fails() {
  if (!counts) return false;
  const long call = ++calls;
  if (call == 1) {
    one = number("SHIM_FAIL");
    from = number("SHIM_FROM");
    each = number("SHIM_EACH");
  }
  if (each > 0 && one == 0 && from == 0 && call % each == 0) try_copy(call);
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
