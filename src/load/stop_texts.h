// Texts that end what is written, found while it comes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tokenizer.h"

namespace heed::inline v0 {

/// Passes a text on, and ends before the first of the texts to stop at. What may still become one waits.
class StopTexts {
 public:
  /// Throws UsageError for a text that is empty, and for one that is not UTF-8: it may be a part of a character.
  explicit StopTexts(std::vector<std::string> stops);
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

/// The texts that end what is written by generation_config.json (stop_strings). What is written ends with the token
/// that completes one of them, special tokens as they are stored.
class StopStrings {
 public:
  StopStrings(std::vector<std::string> stops, Tokenizer tokenizer);
  bool empty() const { return stops_.empty(); }
  /// Whether the last of a text's ids completes one.
  bool ends(std::span<const int32_t> ids) const;

 private:
  std::vector<std::string> stops_;
  Tokenizer tokenizer_;
  size_t longest_ = 0;  // bytes
};

}  // namespace heed::inline v0
