// How positions turn heads, as configurations say it: old files by rope_theta and rope_scaling, new ones by
// rope_parameters, also one for each type of layer.
#pragma once

#include "heed/rotary.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {

/// How many positions a model takes: all that it says, but for scalings that change beyond the original context
/// (LongRoPE): those of that context.
int64_t positions_of(const Keys& config);

/// `layer_type` picks from rope_parameters that differ by layer; "" where they do not. `base_key` names the base of
/// older files. Throws FormatError for a scaling that heed does not know.
Rotary rotation(const Keys& config, int64_t head_dim, const std::string& layer_type = "",
                const char* base_key = "rope_theta", bool scaled = true);

}  // namespace heed::inline v0
