#include "tokenizer/character_classes.h"

#include <utf8proc.h>

#include "text/unicode.h"
#include "tokenizer/unicode_age.h"

namespace heed::inline v0 {
namespace {

bool between(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

}  // namespace

bool is_white_space(char32_t code) {
  return between(code, 0x09, 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         between(code, 0x2000, 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool is_mark(char32_t code) {
  if (code == 0x1CF2 || code == 0x1CF3) return true;  // letters since Unicode 12
  if (is_newer_than_unicode_9(code) || code == 0x111C9) return false;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return true;
    default:
      return false;
  }
}

bool is_nonspacing_mark(char32_t code) {
  if (code == 0x1734) return true;                                                          // Mc since Unicode 14
  if (code == 0x1885 || code == 0x1886 || code == 0xA9BD || code == 0x111C9) return false;  // Mn since 9 to 11
  return category(code) == UTF8PROC_CATEGORY_MN && !is_newer_than_unicode_8(code);
}

bool is_numeric(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool is_tokens_punctuation(char32_t code) {
  if (code < 0x80)
    return between(code, '!', '/') || between(code, ':', '@') || between(code, '[', '`') || between(code, '{', '~');
  if (code == 0x166D || code == 0x111C9) return true;  // of another category since Unicode 11 and 12
  if (is_newer_than_unicode_8(code)) return false;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_control_or_format(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r' || is_newer_than_unicode_8(code)) return false;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool is_word_character(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Marks, joiners, and the letters in circles and squares.
      return is_mark(code) || code == 0x200C || code == 0x200D || between(code, 0x24B6, 0x24E9) ||
             between(code, 0x1F130, 0x1F149) || between(code, 0x1F150, 0x1F169) || between(code, 0x1F170, 0x1F189);
  }
}

bool is_cjk_ideograph(char32_t code) {
  return between(code, 0x3400, 0x4DBF) || between(code, 0x4E00, 0x9FFF) || between(code, 0xF900, 0xFAFF) ||
         between(code, 0x20000, 0x2A6DF) || between(code, 0x2A700, 0x2B81F) || between(code, 0x2B920, 0x2CEAF) ||
         between(code, 0x2F800, 0x2FA1F);
}

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

size_t trimmed_end(std::string_view text) {
  while (!text.empty()) {
    const size_t at = last_character(text);
    if (!is_white_space(decode_utf8(text.substr(at)).code)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

}  // namespace heed::inline v0
