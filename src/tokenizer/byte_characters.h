// Byte-level tokenizers write each byte as a character: those that can be seen as themselves, the others from U+0100 on
// (Radford et al. 2019).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heed::inline v0 {

/// The character of a byte, in UTF-8.
const std::string& byte_character(uint8_t byte);
/// The byte of a character, or -1.
int byte_of_character(char32_t code);
/// The bytes of a text of such characters; nothing if it has others.
std::optional<std::string> bytes_of_characters(std::string_view text);
/// The same bytes as characters.
std::string to_byte_characters(std::string_view bytes);

}  // namespace heed::inline v0
