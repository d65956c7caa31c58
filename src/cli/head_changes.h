// Heads that heed attend switches off, scales or gives another pattern, to see what they are for.
#pragma once

#include <cstdint>
#include <map>
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

/// By the name of the attention, as pages have it: "Cross".
using GroupChanges = std::map<std::string, std::vector<HeadChange>>;
/// Of "Cross:2.1=0,3.4=uniform;Encoder:1.2=own", which may be empty. Throws UsageError for what is no such list.
GroupChanges read_group_changes(const std::string& changes);
/// "without head 2.1 of Cross; with head 1.2 own of Encoder".
std::string in_words(const GroupChanges& changes);

/// Heads are changed while it lives, and learned as before from then on.
class ChangedHeads {
 public:
  /// Throws UsageError for attention, layers and heads that the model has not.
  ChangedHeads(const GroupChanges& changes, Module& model);
  ~ChangedHeads();
  ChangedHeads(const ChangedHeads&) = delete;
  ChangedHeads& operator=(const ChangedHeads&) = delete;

 private:
  AttentionLayers layers_;
};

}  // namespace heed::cli
