// gpt-oss (OpenAI 2025, arXiv 2508.10925) where it is dense, with a single expert: sinks, windows in every second
// layer, a gate that is held.
#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

std::vector<std::string> layer_types(const Keys& config, int64_t layers) {
  std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != layers)
    config.fail("layer_types", "there are " + std::to_string(layers) + " layers");
  if (types.empty())
    for (int64_t l = 0; l < layers; ++l) types.emplace_back(l % 2 == 0 ? kSliding : kFull);
  return types;
}

// What a file leaves out is not what other families take for it.
Rotary stated_rotation(const Keys& config, int64_t head_dim) {
  const std::optional<Keys> parameters = config.object("rope_parameters");
  (parameters ? *parameters : config).number("rope_theta", 1, 1e12);
  if (!parameters && !config.has("rope_scaling")) config.fail("rope_scaling", "");
  return rotation(config, head_dim);
}

Names names_of() {
  const std::string layer = "layers.{}.", heads = layer + "self_attn.", expert = layer + "mlp.experts.";
  Names names{.rules = {{"embedding.weight", {"embed_tokens.weight"}},
                        {"output.weight", {"lm_head.weight"}},
                        {heads + "sinks", {heads + "sinks"}},
                        {layer + "linear1.weight", {expert + "gate_up_proj"}, Change::transpose, /*alternating=*/true},
                        {layer + "linear1.bias", {expert + "gate_up_proj_bias"}, Change::reshape, true},
                        {layer + "linear2.weight", {expert + "down_proj"}, Change::transpose},
                        {layer + "linear2.bias", {expert + "down_proj_bias"}, Change::reshape},
                        {layer + "norm1.weight", {layer + "input_layernorm.weight"}},
                        {layer + "norm2.weight", {layer + "post_attention_layernorm.weight"}},
                        {"norm.weight", {"norm.weight"}}},
              .prefixes = {"model.", ""},
              .without_prefix = {"lm_head."},
              .unused = {"*.mlp.router.weight", "*.mlp.router.bias"}};  // there is nothing to choose
  for (const std::string kind : {"weight", "bias"}) {
    names.rules.push_back(
        {heads + "in_proj_" + kind, {heads + "q_proj." + kind, heads + "k_proj." + kind, heads + "v_proj." + kind}});
    names.rules.push_back({heads + "out_proj." + kind, {heads + "o_proj." + kind}});
  }
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>&) {
  if (config.integer("num_local_experts", 1, INT32_MAX) != 1)
    config.fail("num_local_experts", "heed has this kind of model with one expert");
  const LanguageModelConfig own = decoder_sizes(config, /*tied=*/false);
  const int64_t head_dim = config.integer("head_dim", 1, 65536, 64);
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim, 1e-5);
  layer.activation.alpha = config.number("swiglu_alpha", 1e-6, 1e6, 1.702);
  layer.activation.limit = config.number("swiglu_limit", 1e-6, 1e6, 7);
  layer.bias = true;
  layer.qkv_bias = layer.out_bias = config.flag("attention_bias", true);
  layer.rotary_options = stated_rotation(config, head_dim);
  layer.heads.sinks = true;
  LanguageModelDetails details;
  for (const std::string& type : layer_types(config, own.num_layers)) {
    layer.heads.window = window_of(type == kSliding ? config.integer("sliding_window", 1, INT32_MAX, 128) : 0);
    details.layers.push_back(layer);
  }
  return language_model(own, std::move(details), names_of());
}

}  // namespace

const Family kGptOss{.model_types = {"gpt_oss"}, .describe = describe};

}  // namespace heed::inline v0
