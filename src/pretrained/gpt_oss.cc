// gpt-oss (OpenAI 2025, arXiv 2508.10925) with a single expert: attention sinks, a window in every second layer, a
// clamped gate.
#include <algorithm>

#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

KeyTable keys(const std::string&) {
  const nlohmann::json yarn{{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                            {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  return decoder_keys().with({applied("vocab_size", 201088),
                              applied("hidden_size", 2880),
                              applied("intermediate_size", 2880),
                              applied("num_hidden_layers", 36),
                              applied("num_attention_heads", 64),
                              applied("num_key_value_heads", 8),
                              applied("head_dim", 64),
                              applied("sliding_window", 128),
                              applied("layer_types"),
                              applied("max_position_embeddings", 131072),
                              applied("rms_norm_eps", 1e-5),
                              applied("rope_parameters", yarn),
                              applied("attention_bias", true),
                              applied("swiglu_alpha", 1.702),
                              applied("swiglu_limit", 7.0),
                              applied("num_local_experts", 128),
                              applied("eos_token_id"),
                              alias("num_experts", "num_local_experts"),
                              harmless("hidden_act", "its gate is always a sigmoid"),
                              applied("num_experts_per_tok", 4),
                              harmless("router_aux_loss_coef", "one expert needs no balance"),
                              harmless("output_router_logits", "it selects what a call in Python returns")});
}

std::vector<std::string> types_of_layers(const Keys& config, int64_t layers) {
  std::vector<std::string> types = layer_types(config, layers);
  if (types.empty())
    for (int64_t l = 0; l < layers; ++l) types.emplace_back(l % 2 == 0 ? kSlidingLayer : kFullLayer);
  return types;
}

Names names_of() {
  const std::string layer = "layers.{}.", heads = layer + "self_attn.", expert = layer + "mlp.experts.";
  Names names{.rules = {{"embedding.weight", {"embed_tokens.weight"}},
                        {heads + "sinks", {heads + "sinks"}},
                        {layer + "linear1.weight", {expert + "gate_up_proj"}, Change::transpose, /*alternating=*/true},
                        {layer + "linear1.bias", {expert + "gate_up_proj_bias"}, Change::reshape, true},
                        {layer + "linear2.weight", {expert + "down_proj"}, Change::transpose},
                        {layer + "linear2.bias", {expert + "down_proj_bias"}, Change::reshape},
                        {layer + "norm1.weight", {layer + "input_layernorm.weight"}},
                        {layer + "norm2.weight", {layer + "post_attention_layernorm.weight"}},
                        {"norm.weight", {"norm.weight"}}},
              .prefixes = {"model.", ""},
              .unused = {"*.mlp.router.weight", "*.mlp.router.bias"}};  // a single expert needs no router
  for (const std::string kind : {"weight", "bias"}) {
    names.rules.push_back(
        {heads + "in_proj_" + kind, {heads + "q_proj." + kind, heads + "k_proj." + kind, heads + "v_proj." + kind}});
    names.rules.push_back({heads + "out_proj." + kind, {heads + "o_proj." + kind}});
  }
  return names;
}

Described describe(const Keys& config, const TensorSource& stored) {
  constexpr double kBase = 150000;
  if (config.integer("num_local_experts", 1, INT32_MAX) != 1)
    config.fail("num_local_experts", "heed supports this kind of model only with one expert");
  config.integer("num_experts_per_tok", 1, INT32_MAX);  // the only expert has weight 1
  const LanguageModelConfig own = decoder_sizes(config);
  const int64_t head_dim = config.integer("head_dim", 1, 65536, std::max<int64_t>(1, own.d_model / own.nhead));
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim);
  layer.activation.alpha = config.number("swiglu_alpha", 1e-6, 1e6);
  layer.activation.limit = config.number("swiglu_limit", 1e-6, 1e6);
  layer.bias = true;
  layer.qkv_bias = layer.out_bias = config.flag("attention_bias");
  layer.rotary_options = rotation(config, head_dim, {.base = kBase});
  layer.heads.sinks = true;
  LanguageModelDetails details;
  for (const std::string& type : types_of_layers(config, own.num_layers)) {
    layer.heads.window = window_of(type == kSlidingLayer ? config.integer("sliding_window", 1, INT32_MAX) : 0);
    details.layers.push_back(layer);
  }
  return language_model(config, own, std::move(details), names_of(), "embed_tokens.weight", stored);
}

}  // namespace

const Family kGptOss{.model_types = {"gpt_oss"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
