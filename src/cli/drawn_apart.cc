#include "cli/drawn_apart.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <string_view>

#include "heed/error.h"
#include "io/file_system.h"

namespace heed::cli {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;
// The first byte of what the child sends says what follows.
constexpr char kPicture = 'p', kWrongUse = 'w', kFailure = 'f', kNoMemory = 'm';

[[noreturn]] void draw_and_exit(const std::function<std::string()>& draw, int to) {
  const auto send = [&](char kind, const std::string& text) {
    DescriptorWriter writer(to, "a pipe");
    writer.write(std::string_view(&kind, 1));
    writer.write(text);
    ::_exit(0);
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
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("open", "a pipe", errno);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw_errno("start", "a process that draws", errno);
  if (child == 0) draw_and_exit(draw, to.get());
  to.close();
  std::string sent;
  try {
    sent = read_descriptor(from.get(), "a pipe", kMostBytes);
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
