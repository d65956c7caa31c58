// Texts by characters. Texts are UTF-8; positions and lengths in Python count characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed::inline v0::jinja {

bool begins_character(char byte);
int64_t count_characters(std::string_view text);
/// The byte that is `count` characters after the byte `from`, at most the end.
size_t after(std::string_view text, size_t from, int64_t count);

bool is_ascii(std::string_view text);

/// Python's str.strip(): text without white space, or without the given characters, at its left or right end.
std::string_view stripped(std::string_view text, bool left, bool right, const std::string* characters = nullptr);

/// Which letters become upper case; all others become lower case. `title` is str.title(), `words` is Jinja's filter
/// `title`, and `capital` is str.capitalize().
enum class Letters : uint8_t { upper, lower, title, words, capital };
/// Throws ProgramError for text that is not ASCII.
std::string in_letters(const std::string& text, Letters letters);

}  // namespace heed::inline v0::jinja
