// Encoders with decoders that read and write text: Marian (Junczys-Dowmunt et al. 2018), BART (Lewis et al. 2020),
// M2M100 and NLLB (Fan et al. 2021).
#include <cmath>

#include "pretrained/bart_layers.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

// Row p: the sines of p / 10000^(i / divisor), then the cosines.
Tensor sinusoids(int64_t first, int64_t rows, int64_t width, double divisor) {
  const Tensor table = Tensor::empty({rows, width}, DType::f32);
  for (int64_t p = 0; p < rows; ++p)
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(first + p) * std::pow(10000, -static_cast<double>(i) / divisor);
      table.at<float>(p, i) = static_cast<float>(std::sin(angle));
      table.at<float>(p, width / 2 + i) = static_cast<float>(std::cos(angle));
    }
  return table;
}

Names names_of(const TransformerConfig& config) {
  const bool separate = config.source_vocab_size > 0;
  Names names{.rules = {{"embedding.weight", {"shared.weight"}},
                        {"source_embedding.weight", {separate ? "encoder.embed_tokens.weight" : "shared.weight"}},
                        {"target_embedding.weight", {"decoder.embed_tokens.weight"}},
                        {"output.weight", {"lm_head.weight"}},
                        {"output.bias", {"final_logits_bias"}, Change::reshape},
                        {"source_positions.weight", {"encoder.embed_positions.weight"}},
                        {"target_positions.weight", {"decoder.embed_positions.weight"}}},
              .layers = std::max(config.num_encoder_layers, config.num_decoder_layers),
              .prefixes = {"model.", ""},
              .without_prefix = {"lm_head.", "final_logits_bias"}};
  add_bart_layers(names.rules);
  if (separate)
    names.copies.emplace_back("lm_head.weight");
  else
    for (const char* copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"})
      names.copies.emplace_back(copy);
  if (config.positions != "learned")
    for (const char* table : {"encoder.embed_positions.weights", "decoder.embed_positions.weights",
                              "encoder.embed_positions.weight", "decoder.embed_positions.weight"})
      names.unused.emplace_back(table);
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>&) {
  const std::string type = config.text("model_type");
  const bool marian = type == "marian", bart = type == "bart";
  const int64_t width = size_of(config, "d_model");
  config.require_flag("tie_word_embeddings", true);
  config.require_flag("normalize_before", false);
  const bool separate = marian && !config.flag("share_encoder_decoder_embeddings", true);
  const int64_t pieces = size_of(config, "vocab_size");
  const TransformerConfig own{.vocab_size = separate ? size_of(config, "decoder_vocab_size") : pieces,
                              .source_vocab_size = separate ? pieces : 0,
                              .d_model = width,
                              .nhead = size_of(config, "decoder_attention_heads"),
                              .num_encoder_layers = config.integer("encoder_layers", 1, 1000),
                              .num_decoder_layers = config.integer("decoder_layers", 1, 1000),
                              .dim_feedforward = size_of(config, "decoder_ffn_dim"),
                              .dropout = config.number("dropout", 0, 0.99, 0.1),
                              .positions = bart ? "learned" : "sinusoidal",
                              .max_positions = size_of(config, "max_position_embeddings"),
                              .pad_id = static_cast<int32_t>(config.integer("pad_token_id", 0, INT32_MAX)),
                              .bos_id = static_cast<int32_t>(config.integer("decoder_start_token_id", 0, INT32_MAX)),
                              .eos_id = static_cast<int32_t>(config.integer("eos_token_id", 0, INT32_MAX))};
  const bool norm_first = type == "m2m_100";
  const TransformerLayerOptions encoder = bart_layer(config, "encoder", norm_first);
  const TransformerLayerOptions decoder = bart_layer(config, "decoder", norm_first);
  TransformerDetails details{
      .encoder = std::vector(static_cast<size_t>(own.num_encoder_layers), encoder),
      .decoder = std::vector(static_cast<size_t>(own.num_decoder_layers), decoder),
      .encoder_norm = norm_first,
      .decoder_norm = norm_first,
      .embedding_factor = config.flag("scale_embedding", false) ? std::sqrt(static_cast<double>(width)) : 1,
      .padding_id = own.pad_id,
      .logit_bias = !norm_first};
  if (bart) {
    details.embedding_norm = 1e-5;
    details.position_offset = 2;
  } else if (width % 2) {
    config.fail("d_model", "it must be even, for sines and cosines");
  } else if (constexpr int64_t kMost = int64_t{1} << 26; width > kMost / own.max_positions) {  // before it is made
    config.fail("max_position_embeddings", "a table of so many positions and of the width " + std::to_string(width) +
                                               " would take more than 256 MiB");
  } else {
    const double half = static_cast<double>(width) / 2;
    details.fixed_positions = marian ? sinusoids(0, own.max_positions, width, half)
                                     : sinusoids(own.pad_id + 1, own.max_positions, width, half - 1);
  }
  return {.make = [own, details] { return std::make_unique<Transformer>(own, details); }, .names = names_of(own)};
}

}  // namespace

const Family kMarian{.model_types = {"marian", "bart", "m2m_100"}, .describe = describe};

}  // namespace heed::inline v0
