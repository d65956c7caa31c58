#include <algorithm>
#include <numeric>
#include <string_view>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

// The edit distance, where a swap of two neighbours also counts one (Damerau 1964, restricted: no edits within a swap).
size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(d[0].begin(), d[0].end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    d[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& name : known) {
    // A text that is much longer than the name cannot be close to it, and its table would be large.
    if (typed.size() > 2 * name.size() + 2) continue;
    const size_t count = edits(typed, name);
    if (count <= std::max<size_t>(1, std::min(typed.size(), name.size()) / 3) && (!best || count < fewest)) {
      best = &name;
      fewest = count;
    }
  }
  return best ? "; did you mean " + *best + "?" : "";
}

}  // namespace heed::inline v0
