// Whisper (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision"), on a given spectrum.
#include <algorithm>

#include "heed/speech_transformer.h"
#include "pretrained/bart_layers.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

KeyTable keys(const std::string&) {
  constexpr const char* kClassifies = "WhisperForAudioClassification reads it, which heed does not support";
  constexpr const char* kTrains = "it is for training on sound";
  return bart_keys().with({applied("vocab_size", 51865),
                           applied("num_mel_bins", 80),
                           applied("encoder_layers", 4),
                           applied("encoder_attention_heads", 6),
                           applied("decoder_layers", 4),
                           applied("decoder_attention_heads", 6),
                           applied("decoder_ffn_dim", 1536),
                           applied("encoder_ffn_dim", 1536),
                           applied("d_model", 384),
                           applied("dropout", 0.0),
                           applied("max_source_positions", 1500),
                           applied("max_target_positions", 448),
                           applied("pad_token_id", 50256),
                           applied("eos_token_id", 50256),
                           alias("num_key_value_heads", "encoder_attention_heads"),
                           harmless("decoder_start_token_id", "the caller's prompt begins with it"),
                           harmless("max_position_embeddings", "Whisper has max_source_positions"),
                           harmless("scale_embedding", "Whisper does not use the factor"),
                           harmless("suppress_tokens", "the caller says which tokens are not written"),
                           harmless("begin_suppress_tokens", "the caller says which tokens are not written"),
                           harmless("use_weighted_layer_sum", kClassifies),
                           harmless("classifier_proj_size", kClassifies),
                           harmless("apply_spec_augment", kTrains),
                           harmless("mask_time_prob", kTrains),
                           harmless("mask_time_length", kTrains),
                           harmless("mask_time_min_masks", kTrains),
                           harmless("mask_feature_prob", kTrains),
                           harmless("mask_feature_length", kTrains),
                           harmless("mask_feature_min_masks", kTrains),
                           harmless("median_filter_width", "it smooths weights for the times of words")});
}

constexpr const char* kHead = "proj_out.weight";

Names names_of(int64_t layers) {
  Names names{.rules = {{"embedding.weight", {"decoder.embed_tokens.weight"}},
                        {"output.weight", {kHead}},
                        {"source_positions.weight", {"encoder.embed_positions.weight"}},
                        {"target_positions.weight", {"decoder.embed_positions.weight"}}},
              .layers = layers,
              .prefixes = {"model.", ""},
              .heads = {kHead}};
  for (const std::string conv : {"conv1", "conv2"}) {
    names.rules.push_back({conv + ".weight", {"encoder." + conv + ".weight"}, Change::reshape});
    names.rules.push_back({conv + ".bias", {"encoder." + conv + ".bias"}});
  }
  add_bart_layers(names.rules, /*key_bias=*/false);
  return names;
}

Described describe(const Keys& config, const TensorSource& stored) {
  const std::string wrote = class_of(config);
  const auto layers = [&](const std::string& stack) {
    return std::vector(static_cast<size_t>(layers_of(config, stack + "_layers")),
                       bart_layer(config, stack, /*norm_first=*/true));
  };
  SpeechTransformerConfig own{.vocab_size = size_of(config, "vocab_size"),
                              .mel_bins = size_of(config, "num_mel_bins"),
                              .d_model = size_of(config, "d_model"),
                              .max_source_positions = size_of(config, "max_source_positions"),
                              .max_target_positions = size_of(config, "max_target_positions"),
                              .dropout = config.number("dropout", 0, 0.99),
                              .padding_id = static_cast<int32_t>(config.integer("pad_token_id", 0, INT32_MAX, -1)),
                              .encoder = layers("encoder"),
                              .decoder = layers("decoder")};
  Names names = names_of(std::max(std::ssize(own.encoder), std::ssize(own.decoder)));
  std::vector<Tie> ties;
  if (config.flag("tie_word_embeddings")) ties.push_back({kHead, "decoder.embed_tokens.weight"});
  settle_ties(names, ties, stored);
  PretrainedHead head;
  own.has_head = find_stored(names, kHead, stored.names);
  if (!own.has_head && wrote != "WhisperModel") head.missing = head_without(config, kHead);
  if (!wrote.empty() && wrote != "WhisperForConditionalGeneration" && wrote != "WhisperModel")
    own.has_head = false, head.missing = head_unknown(config);
  own.missing_head = head.missing;
  own.tie_embeddings = !own.has_head || is_tied(names, kHead);
  return {.make = [own] { return std::make_unique<SpeechTransformer>(own); },
          .names = std::move(names),
          .head = std::move(head)};
}

}  // namespace

const Family kWhisper{.model_types = {"whisper"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
