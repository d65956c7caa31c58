#include "tokenizer/character_classes.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

namespace heed::inline v0 {
namespace {

bool between(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

struct Range {
  char32_t first, last;
};

bool is_in(std::span<const Range> ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Range range) { return between(code, range.first, range.last); });
}

// Characters that Unicode got after version 8, whose tables the package tokenizers has for these classes. A range
// covers characters of other classes, too.
constexpr Range kLaterPunctuation[] = {{0x61D, 0x61D},     {0x9FD, 0xA76},     {0xC77, 0xC84},     {0x1B7D, 0x1B7E},
                                       {0x2E43, 0x2E5D},   {0x10EAD, 0x10F89}, {0x1144B, 0x1145D}, {0x11660, 0x116B9},
                                       {0x1183B, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16FE2}, {0x1E95E, 0x1E95F}};
constexpr Range kLaterMarks[] = {{0x7FD, 0x7FD},     {0x898, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
                                 {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
                                 {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x1886},
                                 {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},
                                 {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F85}, {0x11070, 0x11074},
                                 {0x110C2, 0x110C2}, {0x111C9, 0x111C9}, {0x111CF, 0x111CF}, {0x1123E, 0x11241},
                                 {0x1133B, 0x1133B}, {0x11438, 0x1145E}, {0x1182F, 0x13455}, {0x16F4F, 0x16F4F},
                                 {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E94A}};
constexpr Range kLaterControls[] = {{0x890, 0x8E2}, {0x110CD, 0x1343F}};

}  // namespace

bool is_white_space(char32_t code) {
  return between(code, 0x09, 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         between(code, 0x2000, 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool is_mark(char32_t code) {
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
  if (code == 0x1734) return true;  // in Unicode 8
  return category(code) == UTF8PROC_CATEGORY_MN && !is_in(kLaterMarks, code);
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
  if (code == 0x166D || code == 0x111C9) return true;  // in Unicode 8
  switch (category(code)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return !is_in(kLaterPunctuation, code);
    default:
      return false;
  }
}

bool is_control_or_format(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return !is_in(kLaterControls, code);
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

}  // namespace heed::inline v0
