// The classes of characters that tokenizers split and filter by, each by the version of Unicode of its part in the
// package `tokenizers`.
#pragma once

#include <cstdint>

namespace heed::inline v0 {

bool is_white_space(char32_t code);         // Unicode's White_Space
bool is_mark(char32_t code);                // categories Mn, Mc, Me of Unicode 9
bool is_nonspacing_mark(char32_t code);     // category Mn of Unicode 8
bool is_numeric(char32_t code);             // categories Nd, Nl, No
bool is_tokens_punctuation(char32_t code);  // categories P* of Unicode 8, and every other sign of ASCII
bool is_control_or_format(char32_t code);   // categories Cc, Cf, Co of Unicode 8, except tab, line feed, return
bool is_word_character(char32_t code);      // \w of Unicode's regular expressions (UTS 18, Annex C)
bool is_cjk_ideograph(char32_t code);       // as BERT has them

}  // namespace heed::inline v0
