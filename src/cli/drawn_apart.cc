#include "cli/drawn_apart.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <system_error>

#include "heed/error.h"

namespace heed::cli {
namespace {

// clang's address sanitizer copies its allocator with a lock shut where another thread held it during fork(), and the
// copy hangs.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kDrawHere = true;
#elif defined(__has_feature)
constexpr bool kDrawHere = __has_feature(address_sanitizer);
#else
constexpr bool kDrawHere = false;
#endif

// The first byte of what the child sends says what follows.
constexpr char kPicture = 'p', kWrongUse = 'w', kFailure = 'f', kNoMemory = 'm';

[[noreturn]] void fail(const char* doing) {
  throw IoError(std::string(doing) + ": " + std::generic_category().message(errno));
}

using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[noreturn]] void draw_and_exit(const std::function<std::string()>& draw, std::FILE* to) {
  const auto send = [&](char kind, const std::string& text) {
    const bool sent = std::fputc(kind, to) != EOF && std::fwrite(text.data(), 1, text.size(), to) == text.size() &&
                      std::fflush(to) == 0;
    ::_exit(sent ? 0 : 1);
  };
  try {
    try {
      // What a library says before it gives up is none of the user's: the parent says it in one line.
      if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
      send(kPicture, draw());
    } catch (const ShapeError& e) {
      send(kWrongUse, e.what());
    } catch (const std::bad_alloc&) {
      send(kNoMemory, "");
    } catch (const std::exception& e) {
      send(kFailure, e.what());
    }
  } catch (...) {
  }
  ::_exit(1);
}

}  // namespace

std::string drawn_apart(const std::function<std::string()>& draw) {
  if (kDrawHere) return draw();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("open a pipe");
  const Stream from(::fdopen(ends[0], "r"), std::fclose);
  Stream to(::fdopen(ends[1], "w"), std::fclose);
  if (!from || !to) throw std::bad_alloc();
  const pid_t child = ::fork();
  if (child < 0) fail("start a process that draws");
  if (child == 0) draw_and_exit(draw, to.get());
  to.reset();
  std::string sent;
  try {
    std::array<char, 1 << 16> some;
    while (const size_t n = std::fread(some.data(), 1, some.size(), from.get())) sent.append(some.data(), n);
    if (std::ferror(from.get())) fail("read a pipe");
  } catch (...) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    throw;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 || sent.empty() || sent.front() == kNoMemory)
    throw MemoryError("picture: the libraries that draw found too little memory; try a smaller picture, or --html");
  const char kind = sent.front();
  sent.erase(0, 1);
  if (kind == kWrongUse) throw ShapeError(sent);
  if (kind == kFailure) throw Error(sent);
  return sent;
}

}  // namespace heed::cli
