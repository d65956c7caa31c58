// The classes of characters that tokenizers split and filter by, each by the version of Unicode of its part in the
// package `tokenizers`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heed::inline v0 {

bool is_white_space(char32_t code);         // Unicode's White_Space
bool is_mark(char32_t code);                // categories Mn, Mc, Me of Unicode 9
bool is_nonspacing_mark(char32_t code);     // category Mn of Unicode 8
bool is_numeric(char32_t code);             // categories Nd, Nl, No
bool is_tokens_punctuation(char32_t code);  // categories P* of Unicode 8, and every other sign of ASCII
bool is_control_or_format(char32_t code);   // categories Cc, Cf, Co of Unicode 8, except tab, line feed, return
bool is_word_character(char32_t code);      // \w of Unicode's regular expressions (UTS 18, Annex C)
bool is_cjk_ideograph(char32_t code);       // as BERT has them

/// The place of the last character of a text that is not empty.
size_t last_character(std::string_view text);
/// The length of a text without the white space at its end.
size_t trimmed_end(std::string_view text);

}  // namespace heed::inline v0
