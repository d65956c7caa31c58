#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

bool between(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

// Unicode's Case_Ignorable: marks, formats, modifiers, and what may stand within a word (Word_Break MidLetter,
// MidNumLet and Single_Quote).
bool case_ignorable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  return std::u32string_view(U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A")
             .find(code) != std::u32string_view::npos;
}

// Unicode's Cased, as far as it is not Case_Ignorable: letters with case, and the roman and circled ones that
// Other_Lowercase and Other_Uppercase list.
bool cased(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      break;
  }
  return code == 0xAA || code == 0xBA || between(code, 0x2160, 0x217F) || between(code, 0x24B6, 0x24E9) ||
         between(code, 0x1F130, 0x1F149) || between(code, 0x1F150, 0x1F169) || between(code, 0x1F170, 0x1F189);
}

// Capital sigma ends a word when a cased letter stands before it and none after it; Unicode 3.13, Final_Sigma.
bool final_sigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && case_ignorable(text[before - 1])) --before;
  if (before == 0 || !cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && case_ignorable(text[after])) ++after;
  return after == text.size() || !cased(text[after]);
}

}  // namespace

DecodedCharacter decode_beyond_ascii(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
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
    if (static_cast<size_t>(i) >= text.size() || byte(i) < low || byte(i) > high) return {U'\uFFFD', i, false};
    code = (code << 6) | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code, trail + 1, true};
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    if (uint64_t eight = 0; text.size() >= sizeof eight) {  // of ASCII at once
      std::memcpy(&eight, text.data(), sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        text.remove_prefix(sizeof eight);
        continue;
      }
    }
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

std::string sanitize_utf8(std::string_view text, int64_t* replaced) {
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

size_t incomplete_utf8(std::string_view text) {
  for (size_t n = std::min<size_t>(text.size(), 3); n > 0; --n) {
    const std::string_view end = text.substr(text.size() - n);
    const auto lead = static_cast<unsigned char>(end[0]);
    const DecodedCharacter c = decode_utf8(end);
    if (!c.valid && static_cast<size_t>(c.length) == n && lead >= 0xC2 && lead <= 0xF4) return n;
  }
  return 0;
}

std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    out += c.code;
    text.remove_prefix(c.length);
  }
  return out;
}

std::string to_lower(std::string_view text) {
  const std::u32string codes = to_utf32(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == U'\u0130') {
      out += "i\u0307";
    } else if (codes[i] == U'\u03A3') {
      out += final_sigma(codes, i) ? "\u03C2" : "\u03C3";
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(codes[i]))), &out);
    }
  }
  return out;
}

bool is_space(char32_t code) {
  return between(code, 0x09, 0x0D) || between(code, 0x1C, 0x20) || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         between(code, 0x2000, 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter c = decode_utf8(text.substr(at));
    if (is_space(c.code)) {
      if (at > start) words.push_back(text.substr(start, at - start));
      start = at + c.length;
    }
    at += c.length;
  }
  if (text.size() > start) words.push_back(text.substr(start));
  return words;
}

std::string_view trim_end(std::string_view text) {
  const std::vector<std::string_view> words = split_words(text);
  if (words.empty()) return {};
  return text.substr(0, words.back().data() + words.back().size() - text.data());
}

std::string to_nfc(const std::string& text) {
  // Text below U+0300, the first combining mark, is in this form already, and 0xCC begins U+0300.
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xCC; })) return text;
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
