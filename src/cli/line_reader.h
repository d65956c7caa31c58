// Lines of a descriptor as they come, many at once when many are waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heed::cli {

class LineReader {
 public:
  /// `name` stands for it in messages. The descriptor stays the caller's.
  LineReader(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  /// Waits for a line and takes those that can be had without waiting on, `most` at the most; none at the end. Without
  /// "\n" or "\r\n", which the last line does not need; a byte order mark at the start is dropped, malformed UTF-8 is
  /// replaced. Throws IoError, and FormatError for a line of more than 64 MiB.
  std::vector<std::string> read(size_t most);

  int64_t replaced() const { return replaced_; }  // malformed UTF-8 sequences so far

 private:
  void fill();           // waits for bytes, or the end
  bool waiting() const;  // something can be read at once

  int descriptor_;
  std::string name_;
  std::string buffer_;
  size_t begin_ = 0;    // of what was not given out yet
  size_t scanned_ = 0;  // no line ends between begin_ and here
  bool ended_ = false;
  int64_t lines_ = 0, replaced_ = 0;
};

}  // namespace heed::cli
