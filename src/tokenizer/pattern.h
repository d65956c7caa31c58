// Patterns of Split and Replace: a text or a regular expression.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"
#include "tokenizer/regex.h"

namespace heed::inline v0 {

/// A part of a text, and whether the pattern matched it. Parts lie side by side and cover the text.
struct Part {
  size_t begin, end;
  bool match;
};

class Pattern {
 public:
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    /// Into *parts, which is emptied before.
    void find(std::string_view text, std::vector<Part>* parts);

   private:
    const Pattern& pattern_;
    std::optional<Regex::Finder> regex_;
  };

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

/// Each character that `is` takes is a match of its own.
template <class Is>
void find_characters(std::string_view text, const Is& is, std::vector<Part>* parts) {
  parts->clear();
  size_t last = 0;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter c = decode_utf8(text.substr(at));
    const size_t end = at + static_cast<size_t>(c.length);
    if (is(c.code)) {
      if (last < at) parts->push_back({last, at, false});
      parts->push_back({at, end, true});
      last = end;
    }
    at = end;
  }
  if (last < text.size()) parts->push_back({last, text.size(), false});
}

}  // namespace heed::inline v0
