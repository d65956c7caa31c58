#include <utility>

#include "heed/models.h"

namespace heed::inline v0 {

AttentionLayers attention_layers(Module& model) {
  AttentionLayers found;
  const auto walk = [&](const auto& self, Module& module) -> void {
    if (auto* const encoder = dynamic_cast<TransformerEncoderLayer*>(&module))
      found.encoder.push_back(&encoder->self_attn);
    if (auto* const decoder = dynamic_cast<TransformerDecoderLayer*>(&module)) {
      found.decoder.push_back(&decoder->self_attn);
      found.cross.push_back(&decoder->multihead_attn);
    }
    for (const auto& child : module.children()) self(self, *child.second);
  };
  walk(walk, model);
  if (dynamic_cast<LanguageModel*>(&model)) std::swap(found.encoder, found.decoder);
  return found;
}

}  // namespace heed::inline v0
