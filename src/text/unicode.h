// UTF-8 and Unicode: decoding, normal form C, lower case, whitespace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {

struct DecodedCharacter {
  char32_t code;  // U+FFFD where malformed
  int length;     // bytes consumed, at least 1
  bool valid;
};

DecodedCharacter decode_beyond_ascii(std::string_view text);

/// The first character of a non-empty text; where malformed, the maximal subpart.
inline DecodedCharacter decode_utf8(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  return lead < 0x80 ? DecodedCharacter{lead, 1, true} : decode_beyond_ascii(text);
}

bool valid_utf8(std::string_view text);

/// Unicode normal form C of valid UTF-8.
std::string to_nfc(const std::string& text);

/// Unicode's full lower case as Python's str.lower() gives it, final sigma and U+0130 included. Not tailored to a
/// language: Turkish I becomes i.
std::string to_lower(std::string_view text);

/// What Python's str.isspace() calls whitespace.
bool is_space(char32_t code);

/// The words between runs of whitespace, as Python's str.split(). They point into text.
std::vector<std::string_view> split_words(std::string_view text);

/// Without whitespace at the end, as Python's str.rstrip().
std::string_view trim_end(std::string_view text);

}  // namespace heed::inline v0
