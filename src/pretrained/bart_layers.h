// Layers and names shared by BART, Marian, M2M100, T5 and Whisper.
#pragma once

#include <string>
#include <vector>

#include "pretrained/family.h"

namespace heed::inline v0 {

/// A layer of `stack`, "encoder" or "decoder".
TransformerLayerOptions bart_layer(const Keys& config, const std::string& stack, bool norm_first);
/// Names of the embedding tables of encoder and decoder and of the head, which transformers may tie.
inline constexpr const char *kSharedTable = "shared.weight", *kEncoderTable = "encoder.embed_tokens.weight",
                            *kDecoderTable = "decoder.embed_tokens.weight", *kHeadTable = "lm_head.weight";
/// Decides from `ties` and the stored tensors which of these tables are one, and clears details.has_head if the files
/// lack the head's. Sets them in `own` and `details`, and adds their rules to `names`.
void settle_tables(const std::vector<Tie>& ties, const TensorSource& stored, Names& names, TransformerConfig& own,
                   TransformerDetails& details);

/// Adds the rules of both stacks. `key_bias`: whether key projections have a bias.
void add_bart_layers(std::vector<NameRule>& rules, bool key_bias = true);

}  // namespace heed::inline v0
