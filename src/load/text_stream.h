// Text that comes in pieces of bytes and is passed on as early as it may be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

/// Passes on whole characters only: what may still become one waits. Bytes that are not UTF-8 become U+FFFD. Ends
/// before the first of its stop strings; what may still become one waits, too.
class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// More bytes; returns what is certain by now.
  std::string push(std::string_view bytes);
  /// The rest, when nothing more comes.
  std::string finish();
  /// A stop string has come.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool all);
  std::vector<std::string> stops_;
  std::string bytes_;  // not whole characters yet
  std::string text_;   // may begin a stop string
  bool stopped_ = false;
};

}  // namespace heed::inline v0
