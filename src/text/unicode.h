// UTF-8 and Unicode: decoding, normal form C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

struct DecodedCharacter {
  char32_t code;  // U+FFFD where malformed
  int length;     // bytes consumed, at least 1
  bool valid;
};

/// The first character of a non-empty text; where malformed, the maximal subpart.
DecodedCharacter decode_utf8(std::string_view text);

bool valid_utf8(std::string_view text);

void append_utf8(char32_t code, std::string* out);

/// Unicode normal form C of valid UTF-8.
std::string to_nfc(const std::string& text);

}  // namespace heed::inline v0
