// The 13a tokens of BLEU.
#pragma once

#include <string>
#include <string_view>

namespace heed::inline v0 {

/// Tokens separated by single spaces, as mteval-v13a and sacreBLEU's "13a" make them.
std::string tokenize_13a(std::string_view text);

}  // namespace heed::inline v0
