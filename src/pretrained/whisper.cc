// Whisper (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision"), on a given spectrum.
#include <algorithm>

#include "heed/speech_transformer.h"
#include "pretrained/bart_layers.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

Names names_of(int64_t layers) {
  Names names{.rules = {{"embedding.weight", {"decoder.embed_tokens.weight"}},
                        {"source_positions.weight", {"encoder.embed_positions.weight"}},
                        {"target_positions.weight", {"decoder.embed_positions.weight"}}},
              .layers = layers,
              .prefixes = {"model.", ""},
              .without_prefix = {"proj_out."},
              .copies = {"proj_out.weight"}};
  for (const std::string conv : {"conv1", "conv2"}) {
    names.rules.push_back({conv + ".weight", {"encoder." + conv + ".weight"}, Change::reshape});
    names.rules.push_back({conv + ".bias", {"encoder." + conv + ".bias"}});
  }
  add_bart_layers(names.rules, /*key_bias=*/false);
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>&) {
  const std::vector<std::string> classes = config.texts("architectures");
  if (!classes.empty() && classes[0] != "WhisperForConditionalGeneration" && classes[0] != "WhisperModel")
    config.fail("architectures", "heed has WhisperModel and WhisperForConditionalGeneration");
  config.require_flag("tie_word_embeddings", true);
  const auto layers = [&](const std::string& stack) {
    return std::vector(static_cast<size_t>(config.integer(stack + "_layers", 1, 1000)),
                       bart_layer(config, stack, /*norm_first=*/true));
  };
  const SpeechTransformerConfig own{
      .vocab_size = size_of(config, "vocab_size"),
      .mel_bins = size_of(config, "num_mel_bins"),
      .d_model = size_of(config, "d_model"),
      .max_source_positions = size_of(config, "max_source_positions"),
      .max_target_positions = size_of(config, "max_target_positions"),
      .dropout = config.number("dropout", 0, 0.99, 0),
      .padding_id = static_cast<int32_t>(
          config.is_null("pad_token_id") ? -1 : config.integer("pad_token_id", 0, INT32_MAX, 50256)),
      .encoder = layers("encoder"),
      .decoder = layers("decoder")};
  return {.make = [own] { return std::make_unique<SpeechTransformer>(own); },
          .names = names_of(std::max(std::ssize(own.encoder), std::ssize(own.decoder)))};
}

}  // namespace

const Family kWhisper{.model_types = {"whisper"}, .describe = describe};

}  // namespace heed::inline v0
