// Attention heads that are switched off, scaled or given a fixed pattern, to see what they are for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// A change to one head. Layer and head count from 0.
struct HeadChange {
  int64_t layer = 0, head = 0;
  double scale = 1;                            // of the head's output; 0 switches it off
  HeadPattern pattern = HeadPattern::learned;  // in place of the learned weights
};

/// Heads to switch off, from a list of layer.head such as "2.1,3.4", which count from 1. Throws UsageError for another
/// text.
std::vector<HeadChange> read_heads_off(std::string_view list);
/// Changes from a list of layer.head=change such as "2.1=0.5,3.4=uniform", which count from 1. A change is a scale or
/// "uniform", "previous" or "own". Throws UsageError for another text.
std::vector<HeadChange> read_head_changes(std::string_view list);
/// Both lists as one. Throws UsageError for a head that occurs twice.
std::vector<HeadChange> combined(std::vector<HeadChange> changes, const std::vector<HeadChange>& more);

/// For titles: "without heads 2.1 and 3.4", "with heads 2.1 x 0.5 and 3.4 uniform".
std::string description_of(const std::vector<HeadChange>& changes);
/// Applies the changes to the layers, which keep them until control_heads() is called again. Throws UsageError for a
/// layer or a head that does not exist.
void change_heads(const std::vector<HeadChange>& changes, const std::vector<MultiheadAttention*>& layers);

/// Changes by the name of the attention on a page: "Encoder", "Decoder" and "Cross" of a translator, "Self-attention"
/// of other models.
using GroupChanges = std::map<std::string, std::vector<HeadChange>>;
/// Changes from a text such as "Cross:2.1=0,3.4=uniform;Encoder:1.2=own"; empty: none. Throws UsageError for another
/// text and for a head that occurs twice.
GroupChanges read_group_changes(const std::string& changes);
/// For titles: "without head 2.1 of Cross; with head 1.2 own of Encoder".
std::string description_of(const GroupChanges& changes);

/// Changes heads of a model for its lifetime, and restores them at its end.
class ChangedHeads {
 public:
  /// Throws UsageError for an attention, a layer or a head that the model does not have.
  ChangedHeads(const GroupChanges& changes, Module& model);
  ~ChangedHeads();
  ChangedHeads(const ChangedHeads&) = delete;
  ChangedHeads& operator=(const ChangedHeads&) = delete;

 private:
  AttentionLayers layers_;
};

}  // namespace heed::inline v0
