// What BART shares with its kin: Marian, M2M100, T5, Whisper.
#pragma once

#include <string>
#include <vector>

#include "pretrained/family.h"

namespace heed::inline v0 {

/// Of `stack`, "encoder" or "decoder".
TransformerLayerOptions bart_layer(const Keys& config, const std::string& stack, bool norm_first);
/// Names of the tables of an encoder and a decoder, which transformers may tie.
inline constexpr const char *kSharedTable = "shared.weight", *kEncoderTable = "encoder.embed_tokens.weight",
                            *kDecoderTable = "decoder.embed_tokens.weight", *kHeadTable = "lm_head.weight";
/// Which of them are one, by `ties` and by what is stored: the tables of `own` and `details`, and their rules.
void settle_tables(const std::vector<Tie>& ties, const TensorSource& stored, Names& names, TransformerConfig& own,
                   TransformerDetails& details);

/// The names of both stacks. Keys have no bias in some models.
void add_bart_layers(std::vector<NameRule>& rules, bool key_bias = true);

}  // namespace heed::inline v0
