#include <algorithm>
#include <array>
#include <cstdio>

#include "heed/label.h"
#include "heed/pages.h"

namespace heed::inline v0 {

std::string lens_table(const LogitLens& lens, const Tokenizer& tokenizer, const std::vector<std::string>& tokens,
                       int64_t first) {
  constexpr size_t kShown = 3;
  std::string table;
  for (auto row = static_cast<size_t>(first); !lens.empty() && row < lens[0].size(); ++row) {
    const size_t at = row - static_cast<size_t>(first);
    table += (table.empty() ? "" : "\n") + (at < tokens.size() ? printable(tokens[at]) : "what comes next") + "\n";
    for (size_t layer = 0; layer < lens.size(); ++layer) {
      table += "  layer " + std::to_string(layer + 1) + " ";
      const std::vector<LikelyToken>& likely = lens[layer][row];
      for (size_t n = 0; n < std::min(kShown, likely.size()); ++n) {
        std::array<char, 32> number;
        std::snprintf(number.data(), number.size(), " %.3f", likely[n].probability);
        table += " " + printable(tokens_of(tokenizer, {likely[n].id}).labels[0]) + number.data() + " ";
      }
      table.back() = '\n';
    }
  }
  return table;
}

}  // namespace heed::inline v0
