#include "jinja/characters.h"

#include <algorithm>

#include "jinja/value.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

bool is_one_of(char32_t code, const std::string* characters) {
  if (!characters) return is_space(code);
  for (std::string_view rest = *characters; !rest.empty();) {
    const DecodedCharacter c = decode_utf8(rest);
    if (c.code == code) return true;
    rest.remove_prefix(static_cast<size_t>(c.length));
  }
  return false;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

int64_t count_characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

size_t after(std::string_view text, size_t from, int64_t count) {
  for (; count > 0 && from < text.size(); --count) {
    ++from;
    while (from < text.size() && !begins_character(text[from])) ++from;
  }
  return from;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string_view stripped(std::string_view text, bool left, bool right, const std::string* characters) {
  while (left && !text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    if (!is_one_of(c.code, characters)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && !begins_character(text[last])) --last;
    if (!is_one_of(decode_utf8(text.substr(last)).code, characters)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string in_letters(const std::string& text, Letters letters) {
  if (!is_ascii(text)) fail("heed changes upper and lower case in ASCII texts only");
  std::string out = text;
  bool begins = true;
  for (char& c : out) {
    const bool up = letters == Letters::upper || (begins && letters != Letters::lower);
    if (up && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!up && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    begins = (letters == Letters::title && !is_letter(c)) ||
             (letters == Letters::words &&
              std::string_view("-({[< \t\n\v\f\r\x1c\x1d\x1e\x1f").find(c) != std::string_view::npos);
  }
  return out;
}

}  // namespace heed::inline v0::jinja
