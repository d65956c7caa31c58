// Texts that end what is written, found while it comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

/// Passes a text on, and ends before the first of the texts to stop at. What may still become one waits.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// More of the text; returns what is certain by now.
  std::string push(std::string_view text);
  /// The rest, when nothing more comes.
  std::string finish();
  /// One of them has come.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool all);
  std::vector<std::string> stops_;
  std::string text_;  // may begin one
  bool stopped_ = false;
};

}  // namespace heed::inline v0
