// T5 (Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer"), 1.0, 1.1 and Flan.
#include <algorithm>
#include <cmath>

#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

Names names_of(const TransformerConfig& config, bool gated) {
  Names names{.rules = {{"embedding.weight", {"shared.weight"}}, {"output.weight", {"lm_head.weight"}}},
              .layers = std::max(config.num_encoder_layers, config.num_decoder_layers),
              .copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
              .unused = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}};
  if (config.tie_embeddings) names.copies.emplace_back("lm_head.weight");
  for (const std::string stack : {"encoder", "decoder"}) {
    const bool crossed = stack == "decoder";
    const std::string own = stack + ".layers.{}.", block = stack + ".block.{}.layer.";
    const std::string last = crossed ? "2" : "1", dense = block + last + ".DenseReluDense.";
    const auto attention = [&](const std::string& to, const std::string& from) {
      names.rules.push_back({own + to + ".in_proj_weight",
                             {block + from + ".q.weight", block + from + ".k.weight", block + from + ".v.weight"}});
      names.rules.push_back({own + to + ".out_proj.weight", {block + from + ".o.weight"}});
    };
    attention("self_attn", "0.SelfAttention");
    if (crossed) attention("multihead_attn", "1.EncDecAttention");
    names.rules.push_back({own + "norm1.weight", {block + "0.layer_norm.weight"}});
    if (crossed) names.rules.push_back({own + "norm2.weight", {block + "1.layer_norm.weight"}});
    names.rules.push_back({own + (crossed ? "norm3" : "norm2") + ".weight", {block + last + ".layer_norm.weight"}});
    names.rules.push_back({own + "linear1.weight", gated ? std::vector{dense + "wi_0.weight", dense + "wi_1.weight"}
                                                         : std::vector{dense + "wi.weight"}});
    names.rules.push_back({own + "linear2.weight", {dense + "wo.weight"}});
    names.rules.push_back({stack + ".norm.weight", {stack + ".final_layer_norm.weight"}});
    names.rules.push_back({crossed ? "target_bias.weight" : "source_bias.weight",
                           {stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"}});
  }
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>& stored) {
  std::string projection = config.text("feed_forward_proj", "relu");
  const bool gated = projection.starts_with("gated-");
  if (projection != "relu" && projection != "gated-gelu" && projection != "gated-silu")
    config.fail("feed_forward_proj", "heed has relu, gated-gelu and gated-silu");
  // Newer files call an own head tied, too: it is one that does not scale, and is there.
  const bool scaled = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", true));
  const bool has_head = std::find(stored.begin(), stored.end(), "lm_head.weight") != stored.end();
  const int64_t width = size_of(config, "d_model"), encoder_layers = config.integer("num_layers", 1, 1000);
  const TransformerConfig own{.vocab_size = size_of(config, "vocab_size"),
                              .d_model = width,
                              .nhead = size_of(config, "num_heads"),
                              .num_encoder_layers = encoder_layers,
                              .num_decoder_layers = config.integer("num_decoder_layers", 1, 1000, encoder_layers),
                              .dim_feedforward = size_of(config, "d_ff"),
                              .dropout = config.number("dropout_rate", 0, 0.99, 0.1),
                              .positions = "relative",
                              .max_positions = 1 << 20,  // none is special: attention knows distances alone
                              .tie_embeddings = scaled || !has_head,
                              .pad_id = static_cast<int32_t>(config.integer("pad_token_id", 0, INT32_MAX, 0)),
                              .bos_id = static_cast<int32_t>(config.integer("decoder_start_token_id", 0, INT32_MAX, 0)),
                              .eos_id = static_cast<int32_t>(config.integer("eos_token_id", 0, INT32_MAX, 1))};
  const TransformerLayerOptions layer{.d_model = width,
                                      .nhead = own.nhead,
                                      .dim_feedforward = own.dim_feedforward,
                                      .dropout = own.dropout,
                                      .attention_dropout = own.dropout,
                                      .activation_dropout = own.dropout,
                                      .activation = {!gated                       ? Activation::relu
                                                     : projection == "gated-silu" ? Activation::silu
                                                                                  : Activation::gelu_tanh,
                                                     gated},
                                      .norm = NormKind::rms_norm,
                                      .norm_epsilon = config.number("layer_norm_epsilon", 0, 1, 1e-6),
                                      .norm_first = true,
                                      .bias = false,
                                      .head_dim = config.integer("d_kv", 1, 65536, 64),
                                      .scale = 1};
  const TransformerDetails details{
      .encoder = std::vector(static_cast<size_t>(own.num_encoder_layers), layer),
      .decoder = std::vector(static_cast<size_t>(own.num_decoder_layers), layer),
      .encoder_norm = true,
      .decoder_norm = true,
      .one_embedding = true,
      .relative_buckets = config.integer("relative_attention_num_buckets", 4, 1 << 20, 32),
      .relative_distance = config.integer("relative_attention_max_distance", 2, 1 << 20, 128),
      .state_factor = scaled ? 1 / std::sqrt(static_cast<double>(width)) : 1};
  return {.make = [own, details] { return std::make_unique<Transformer>(own, details); },
          .names = names_of(own, gated)};
}

}  // namespace

const Family kT5{.model_types = {"t5"}, .describe = describe};

}  // namespace heed::inline v0
