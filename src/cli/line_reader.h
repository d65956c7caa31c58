// Lines of a descriptor as they come, many at once when many are waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::cli {

class LineReader {
 public:
  /// `name` stands for it in messages. The descriptor stays the caller's.
  LineReader(int descriptor, const std::string& name) : descriptor_(descriptor), name_(name), check_(name) {}

  /// Waits for a line and takes those that can be had without waiting on, `most` at the most; none at the end. Without
  /// "\n" or "\r\n", which the last line does not need; a byte order mark at the start is dropped, malformed UTF-8 is
  /// replaced. Says on standard error that it waits where a person types the lines. Throws IoError, and FormatError for
  /// a line of more than 64 MiB and as Utf8Check.
  std::vector<std::string> read(size_t most);

  int64_t replaced() const { return check_.replaced(); }  // malformed UTF-8 sequences so far

 private:
  void fill();           // waits for bytes, or the end
  bool waiting() const;  // something can be read at once

  int descriptor_;
  std::string name_;
  Utf8Check check_;
  std::string buffer_;
  size_t begin_ = 0;    // of what was not given out yet
  size_t scanned_ = 0;  // no line ends between begin_ and here
  bool begun_ = false, ended_ = false;
  int64_t lines_ = 0;
};

}  // namespace heed::cli
