// Rotary positions from configurations: older files have rope_theta and rope_scaling, newer ones rope_parameters, Gemma
// 3 one of these per type of layer.
#pragma once

#include "heed/rotary.h"
#include "pretrained/keys.h"

namespace heed::inline v0 {

/// The number of positions that a model takes: max_position_embeddings, or, for scalings that change beyond the
/// original context (LongRoPE), the length of that context.
int64_t positions_of(const Keys& config);

struct RotationRules {
  double base = 10000;   // if the file has none
  bool partial = false;  // partial_rotary_factor may limit the rotation to a part of each head
};
/// The rotation, equal for all layers. Throws FormatError for an unknown scaling.
Rotary rotation(const Keys& config, int64_t head_dim, const RotationRules& rules = {});
/// The rotation of a sliding or a full layer of Gemma 3.
Rotary rotation_of_type(const Keys& config, int64_t head_dim, bool sliding);

}  // namespace heed::inline v0
