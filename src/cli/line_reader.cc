#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/console.h"
#include "heed/error.h"

namespace heed::cli {

constexpr size_t kLongestLine = size_t{1} << 26;  // bytes; an endless one ends here, and not with the memory

void LineReader::fill() {
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  if (buffer_.size() > kLongestLine)
    throw FormatError(name_ + ": line " + std::to_string(lines_ + 1) + " is longer than 64 MiB; is it a text?");
  std::array<char, 1 << 16> bytes;
  for (;;) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count >= 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(count));
      ended_ = count == 0;
      return;
    }
    // Whoever shares the descriptor may have set it not to wait.
    pollfd in{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (errno == EAGAIN && (::poll(&in, 1, -1) >= 0 || errno == EINTR)) continue;
    if (errno != EINTR) throw IoError("read " + name_ + ": " + std::strerror(errno));
  }
}

bool LineReader::waiting() const {
  pollfd in{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return ::poll(&in, 1, 0) == 1;
}

std::vector<std::string> LineReader::read(size_t most) {
  if (!std::exchange(begun_, true)) say_that_it_waits(descriptor_);
  std::vector<std::string> lines;
  while (lines.size() < most) {
    size_t end = buffer_.find('\n', scanned_);
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      if (!ended_) {
        if (!lines.empty() && !waiting()) break;
        fill();
        continue;
      }
      if (begin_ == buffer_.size()) break;
      end = buffer_.size();
    }
    std::string_view line(buffer_.data() + begin_, end - begin_);
    begin_ = scanned_ = std::min(end + 1, buffer_.size());
    ++lines_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(check_.take(line));
  }
  check_.expect_utf8();
  return lines;
}

}  // namespace heed::cli
