// Llama (Touvron et al. 2023) and its kin: Mistral's windows, Qwen 2's biases, Qwen 3's norms of heads, Phi-3's stacked
// matrices.
#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kWindow = "sliding_window";

// Of each layer; 0 is no window.
std::vector<int64_t> windows(const Keys& config, const std::string& type, int64_t layers) {
  const bool everywhere = type == "mistral" || type == "phi3";
  const bool some = type.starts_with("qwen") && config.flag("use_sliding_window", false);
  std::vector<int64_t> all(static_cast<size_t>(layers));
  if (!everywhere && !some) return all;
  // Mistral's own default is a window: "none" is written down.
  const bool by_default = type != "phi3" && !config.is_null(kWindow);
  const int64_t keys = config.has(kWindow) ? config.integer(kWindow, 1, INT32_MAX) : by_default ? 4096 : 0;
  const std::vector<std::string> types = config.texts("layer_types");
  const int64_t first = some ? config.integer("max_window_layers", 0, INT32_MAX, 28) : 0;
  for (size_t l = 0; l < all.size(); ++l) {
    const bool here = some && l < types.size() ? types[l] == "sliding_attention" : static_cast<int64_t>(l) >= first;
    all[l] = here ? keys : 0;
  }
  return all;
}

Names names_of(const std::string& type) {
  Names names{.rules = {{"embedding.weight", {"embed_tokens.weight"}},
                        {"output.weight", {"lm_head.weight"}},
                        {"layers.{}.self_attn.out_proj.weight", {"layers.{}.self_attn.o_proj.weight"}},
                        {"layers.{}.self_attn.out_proj.bias", {"layers.{}.self_attn.o_proj.bias"}},
                        {"layers.{}.self_attn.q_norm.weight", {"layers.{}.self_attn.q_norm.weight"}},
                        {"layers.{}.self_attn.k_norm.weight", {"layers.{}.self_attn.k_norm.weight"}},
                        {"layers.{}.linear2.weight", {"layers.{}.mlp.down_proj.weight"}},
                        {"layers.{}.norm1.weight", {"layers.{}.input_layernorm.weight"}},
                        {"layers.{}.norm2.weight", {"layers.{}.post_attention_layernorm.weight"}},
                        {"norm.weight", {"norm.weight"}}},
              .prefixes = {"model.", ""},
              .without_prefix = {"lm_head."},
              .unused = {"*.rotary_emb.inv_freq"}};
  const std::string heads = "layers.{}.self_attn.", mlp = "layers.{}.mlp.";
  if (type == "phi3") {
    names.rules.push_back({heads + "in_proj_weight", {heads + "qkv_proj.weight"}});
    names.rules.push_back({"layers.{}.linear1.weight", {mlp + "gate_up_proj.weight"}});
    return names;
  }
  for (const std::string kind : {"weight", "bias"})
    names.rules.push_back(
        {heads + "in_proj_" + kind, {heads + "q_proj." + kind, heads + "k_proj." + kind, heads + "v_proj." + kind}});
  names.rules.push_back({"layers.{}.linear1.weight", {mlp + "gate_proj.weight", mlp + "up_proj.weight"}});
  return names;
}

Described describe(const Keys& config, const std::vector<std::string>&) {
  const std::string type = config.text("model_type");
  config.require_flag("mlp_bias", false);
  LanguageModelConfig own = decoder_sizes(config, /*tied=*/false);
  own.dropout = config.number("embd_pdrop", 0, 0.99, 0);
  const int64_t head_dim =
      config.integer("head_dim", 1, 65536, type == "qwen3" ? 128 : std::max<int64_t>(1, own.d_model / own.nhead));
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim, type == "phi3" ? 1e-5 : 1e-6);
  const bool bias = config.flag("attention_bias", false);
  layer.dropout = config.number("resid_pdrop", 0, 0.99, 0);
  layer.activation.activation = activation_of(config, "hidden_act", "silu");
  layer.qkv_bias = bias || type == "qwen2";
  layer.out_bias = bias;
  layer.rotary_options = rotation(config, head_dim);
  layer.heads.norm = type == "qwen3";
  LanguageModelDetails details;
  for (const int64_t keys : windows(config, type, own.num_layers)) {
    details.layers.push_back(layer);
    details.layers.back().heads.window = window_of(keys);
  }
  return language_model(own, std::move(details), names_of(type));
}

}  // namespace

const Family kLlama{.model_types = {"llama", "mistral", "qwen2", "qwen3", "phi3"}, .describe = describe};

}  // namespace heed::inline v0
