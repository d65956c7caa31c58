// How positions turn heads, as configurations say it: older files by rope_theta and rope_scaling, newer ones by
// rope_parameters, Gemma 3 by one for each type of layer.
#pragma once

#include "heed/rotary.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {

/// How many positions a model takes: all that it says, but for scalings that change beyond the original context
/// (LongRoPE): those of that context.
int64_t positions_of(const Keys& config);

struct RotationRules {
  double base = 10000;   // where the file says none
  bool partial = false;  // partial_rotary_factor turns a part of each head
};
/// The same for all layers. Throws FormatError for a scaling that heed does not know.
Rotary rotation(const Keys& config, int64_t head_dim, const RotationRules& rules = {});
/// Gemma 3's, of a sliding or a full layer.
Rotary rotation_of_type(const Keys& config, int64_t head_dim, bool sliding);

}  // namespace heed::inline v0
