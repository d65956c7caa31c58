// The logit lens as text: heed attend --lens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/attended.h"

namespace heed::cli {

/// For each token that was written, or that stands behind others, the likeliest of each layer. `tokens` are those from
/// row `first` on; behind the last of them comes what is not written yet, where the lens has such a row.
std::string lens_table(const LogitLens& lens, const Tokenizer& tokenizer, const std::vector<std::string>& tokens,
                       int64_t first);

}  // namespace heed::cli
