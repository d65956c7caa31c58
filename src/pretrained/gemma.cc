// Gemma 1, 2 and 3 (arXiv 2403.08295, 2408.00118, 2503.19786), the text models.
#include <cmath>

#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

std::vector<std::string> layer_types(const Keys& config, int version, int64_t layers) {
  std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != layers)
    config.fail("layer_types", "there are " + std::to_string(layers) + " layers");
  if (!types.empty()) return types;
  const int64_t pattern = version == 3 ? config.integer("sliding_window_pattern", 1, 1000, 6) : 2;
  for (int64_t l = 0; l < layers; ++l) types.emplace_back(version > 1 && (l + 1) % pattern != 0 ? kSliding : kFull);
  return types;
}

Names names_of(int version) {
  const std::string layer = "layers.{}.", heads = layer + "self_attn.", mlp = layer + "mlp.";
  Names names{
      .rules = {{"embedding.weight", {"embed_tokens.weight"}},
                {"output.weight", {"lm_head.weight"}},
                {heads + "in_proj_weight", {heads + "q_proj.weight", heads + "k_proj.weight", heads + "v_proj.weight"}},
                {heads + "in_proj_bias", {heads + "q_proj.bias", heads + "k_proj.bias", heads + "v_proj.bias"}},
                {heads + "out_proj.weight", {heads + "o_proj.weight"}},
                {heads + "out_proj.bias", {heads + "o_proj.bias"}},
                {heads + "q_norm.weight", {heads + "q_norm.weight"}, Change::add_one},
                {heads + "k_norm.weight", {heads + "k_norm.weight"}, Change::add_one},
                {layer + "linear1.weight", {mlp + "gate_proj.weight", mlp + "up_proj.weight"}},
                {layer + "linear2.weight", {mlp + "down_proj.weight"}},
                {layer + "norm1.weight", {layer + "input_layernorm.weight"}, Change::add_one},
                {"norm.weight", {"norm.weight"}, Change::add_one}},
      .prefixes = {"model.", ""},
      .without_prefix = {"lm_head."},
      .unused = {"*.rotary_emb.inv_freq"}};
  const auto norm = [&](const char* own, const char* theirs) {
    names.rules.push_back({layer + own + ".weight", {layer + theirs + ".weight"}, Change::add_one});
  };
  if (version == 1) {
    norm("norm2", "post_attention_layernorm");
  } else {  // around each sub-layer
    norm("norm1_after", "post_attention_layernorm");
    norm("norm2", "pre_feedforward_layernorm");
    norm("norm2_after", "post_feedforward_layernorm");
  }
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>&) {
  const std::string type = config.text("model_type");
  const int version = type == "gemma" ? 1 : type == "gemma2" ? 2 : 3;
  config.require_flag("use_bidirectional_attention", false);
  const LanguageModelConfig own = decoder_sizes(config, /*tied=*/true);
  const int64_t head_dim = config.integer("head_dim", 1, 65536, 256);
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim, 1e-6);
  // "gelu" of the first version's files means the tanh form.
  layer.activation.activation =
      version == 1 ? Activation::gelu_tanh : activation_of(config, "hidden_activation", "gelu_pytorch_tanh");
  layer.norm_after = version > 1;
  layer.qkv_bias = layer.out_bias = config.flag("attention_bias", false);
  layer.heads.norm = version == 3;
  if (version > 1) layer.scale = 1 / std::sqrt(config.number("query_pre_attn_scalar", 1e-6, 1e9, 256));
  if (version > 1 && !config.is_null("attn_logit_softcapping"))
    layer.heads.softcap = config.number("attn_logit_softcapping", 0, 1e9, version == 2 ? 50 : 0);
  LanguageModelDetails details{.embedding_factor = std::sqrt(static_cast<double>(own.d_model))};
  if (version > 1 && !config.is_null("final_logit_softcapping"))
    details.logit_softcap = config.number("final_logit_softcapping", 0, 1e9, version == 2 ? 30 : 0);
  for (const std::string& kind : layer_types(config, version, own.num_layers)) {
    const bool sliding = kind == kSliding;
    const bool local = version == 3 && sliding && !config.has("rope_parameters");  // a base of their own, as it is
    layer.heads.window = window_of(sliding ? config.integer("sliding_window", 1, INT32_MAX, 4096) : 0);
    layer.rotary_options = local
                               ? Rotary{.size = head_dim, .base = config.number("rope_local_base_freq", 1, 1e12, 10000)}
                               : rotation(config, head_dim, kind);
    details.layers.push_back(layer);
  }
  return language_model(own, std::move(details), names_of(version));
}

}  // namespace

const Family kGemma{.model_types = {"gemma", "gemma2", "gemma3_text"}, .describe = describe};

}  // namespace heed::inline v0
