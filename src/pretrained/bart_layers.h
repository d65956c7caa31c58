// Layers as BART has them and its kin: Marian, M2M100, Whisper.
#pragma once

#include <string>
#include <vector>

#include "pretrained/family.h"

namespace heed::inline v0 {

/// Of `stack`, "encoder" or "decoder".
TransformerLayerOptions bart_layer(const Keys& config, const std::string& stack, bool norm_first);
/// The names of both stacks. Keys have no bias in some models.
void add_bart_layers(std::vector<NameRule>& rules, bool key_bias = true);

}  // namespace heed::inline v0
