// Stop strings, found in a stream of text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tokenizer.h"

namespace heed::inline v0 {

/// Passes a text on up to the first stop string. Text that may begin one is held back.
class StopTexts {
 public:
  /// Throws UsageError for a stop string that is empty or not UTF-8, since that may be a part of a character.
  explicit StopTexts(std::vector<std::string> stops);
  /// Takes more text; returns what is certain so far.
  std::string push(std::string_view text);
  /// Returns the rest at the end of the text.
  std::string finish();
  /// Whether a stop string was found.
  bool stopped() const { return stopped_; }

 private:
  std::string release(bool all);
  std::vector<std::string> stops_;
  std::string text_;  // may begin a stop string
  bool stopped_ = false;
};

/// The stop_strings of generation_config.json. The output ends with the token that completes one of them, in the texts
/// that tokens have by themselves (Tokenizer::own_text), as in transformers' StopStringCriteria.
class StopStrings {
 public:
  StopStrings(std::vector<std::string> stops, Tokenizer tokenizer);
  bool empty() const { return stops_.empty(); }
  /// Whether the last id of a text completes one.
  bool ends(std::span<const int32_t> ids) const;

 private:
  // Texts of tokens that were asked for. Copies share them.
  struct Texts;

  std::vector<std::string> stops_;
  std::shared_ptr<Texts> texts_;
  size_t longest_ = 0;  // bytes
};

}  // namespace heed::inline v0
