#include "heed/label.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace heed::inline v0 {
namespace {

// Decodes one character; -1 where malformed (then one byte is consumed).
int32_t next_character(std::string_view text, size_t* at) {
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + *at,
                       static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - *at, 4)), &code);
  if (length <= 0) {
    ++*at;
    return -1;
  }
  *at += static_cast<size_t>(length);
  return code;
}

// Characters that would act on the terminal, break a line, reorder what follows, or be invisible.
bool must_escape(int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    case UTF8PROC_CATEGORY_CF:
      // The joiners shape scripts and emoji, the tags U+E0020.. flags; soft hyphens and direction marks do not.
      return code != 0x200C && code != 0x200D && !(code >= 0xE0020 && code <= 0xE007F) &&
             !(code >= 0x0600 && code <= 0x0605) && code != 0x06DD && code != 0x070F;
    default:
      return false;
  }
}

void append_escaped(int32_t code, std::string* out) {
  switch (code) {
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    default:
      break;
  }
  std::array<char, 16> buffer;
  std::snprintf(buffer.data(), buffer.size(), code < 0xA0 ? "\\x%02x" : "\\u{%X}", static_cast<unsigned>(code));
  *out += buffer.data();
}

// Calls f(grapheme, width) in turn until it returns false.
template <class F>
void for_each_grapheme(std::string_view text, F&& f) {
  size_t at = 0, start = 0;
  int width = 0;
  utf8proc_int32_t state = 0, previous = -1;
  while (at < text.size()) {
    const size_t here = at;
    const int32_t code = next_character(text, &at);
    if (previous >= 0 && (code < 0 || utf8proc_grapheme_break_stateful(previous, code, &state))) {
      if (!f(text.substr(start, here - start), std::min(width, 2))) return;
      start = here;
      width = 0;
    }
    width += code < 0 ? 1 : utf8proc_charwidth(code);
    // The emoji selector asks for the wide form of a narrow character.
    if (code == 0xFE0F) width = 2;
    previous = code < 0 ? 0xFFFD : code;
  }
  if (start < text.size()) f(text.substr(start), std::min(width, 2));
}

}  // namespace

std::string printable(std::string_view label, bool ascii) {
  std::string out;
  out.reserve(label.size());
  for (size_t at = 0; at < label.size();) {
    const size_t start = at;
    const int32_t code = next_character(label, &at);
    if (code < 0) {
      out += ascii ? "\\u{FFFD}" : "\uFFFD";
    } else if (must_escape(code) || (ascii && code > 0x7E)) {
      append_escaped(code, &out);
    } else {
      out += label.substr(start, at - start);
    }
  }
  return out;
}

int display_width(std::string_view text) {
  int total = 0;
  for_each_grapheme(text, [&](std::string_view, int width) {
    total += width;
    return true;
  });
  return total;
}

std::string truncate(std::string_view text, int width, bool ascii) {
  size_t kept = 0;  // bytes that leave a column for the ellipsis
  size_t seen = 0;
  int total = 0;
  bool cut = false;
  for_each_grapheme(text, [&](std::string_view grapheme, int columns) {
    total += columns;
    seen += grapheme.size();
    if (total <= width - 1) kept = seen;
    cut = total > width;
    return !cut;
  });
  if (!cut) return std::string(text);
  if (width <= 0) return {};
  return std::string(text.substr(0, kept)) + (ascii ? "~" : "…");
}

bool has_right_to_left(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int32_t code = next_character(text, &at);
    if (code < 0x590) continue;
    const auto direction = utf8proc_get_property(code)->bidi_class;
    if (direction == UTF8PROC_BIDI_CLASS_R || direction == UTF8PROC_BIDI_CLASS_AL) return true;
  }
  return false;
}

}  // namespace heed::inline v0
