// Heads that heed attend switches off, scales or gives another pattern, to see what they are for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::cli {

/// What is done to one head, layer and head from 0.
struct HeadChange {
  int64_t layer = 0, head = 0;
  double scale = 1;
  HeadPattern pattern = HeadPattern::learned;
};

/// Of --without "2.1,3.4" and of --change "2.1=0.5,3.4=uniform", layers and heads from 1; either may be empty. Throws
/// UsageError for what is no such list, and for a head that is named twice.
std::vector<HeadChange> read_head_changes(const std::string& without, const std::string& change);
/// "without heads 2.1 and 3.4", "with heads 2.1 x 0.5 and 3.4 uniform".
std::string in_words(const std::vector<HeadChange>& changes);
/// From now on. Throws UsageError for layers and heads that are not there.
void change_heads(const std::vector<HeadChange>& changes, const std::vector<MultiheadAttention*>& layers);

}  // namespace heed::cli
