#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "heed/text.h"

namespace heed::inline v0 {

DecodedCharacter decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  int trail = 0;
  // The second byte's range shuts out overlong forms, surrogates and codes above U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  char32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    trail = 1;
    code = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    trail = 2;
    code = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    trail = 3;
    code = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {U'\uFFFD', 1, false};
  }
  for (int i = 1; i <= trail; ++i) {
    if (static_cast<std::size_t>(i) >= text.size() || byte(i) < low || byte(i) > high) return {U'\uFFFD', i, false};
    code = (code << 6) | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code, trail + 1, true};
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    if (!c.valid) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

void append_utf8(char32_t code, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out->append(reinterpret_cast<const char*>(bytes), n);
}

std::string sanitize_utf8(std::string_view text, std::int64_t* replaced) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    if (c.valid) {
      out.append(text.substr(0, c.length));
    } else {
      out.append("\uFFFD");
      if (replaced) ++*replaced;
    }
    text.remove_prefix(c.length);
  }
  return out;
}

std::string to_nfc(const std::string& text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (n == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (n < 0) throw Error(std::string("normal form C: ") + utf8proc_errmsg(n));
  return std::string(reinterpret_cast<const char*>(mapped), n);
}

}  // namespace heed::inline v0
