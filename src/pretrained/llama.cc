// Llama (Touvron et al. 2023) and related models: Mistral's windows, Qwen 2's biases, Qwen 3's head norms, Phi-3's
// stacked matrices.
#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kWindow = "sliding_window";

KeyTable keys(const std::string& type) {
  const KeyTable windows{applied(kWindow, 4096)};
  if (type == "llama")
    return decoder_keys().with({applied("attention_bias", false), applied("mlp_bias", false),
                                harmless("pretraining_tp", "the same products in parts")});
  if (type == "mistral")
    return decoder_keys().with(windows).with({applied("intermediate_size", 14336), applied("num_key_value_heads", 8),
                                              applied("max_position_embeddings", 131072)});
  if (type == "phi3")
    return decoder_keys().with({applied("vocab_size", 32064), applied("hidden_size", 3072),
                                applied("intermediate_size", 8192), applied("max_position_embeddings", 4096),
                                applied("original_max_position_embeddings", 4096), applied("rms_norm_eps", 1e-5),
                                applied("resid_pdrop", 0.0), applied("embd_pdrop", 0.0), applied("eos_token_id", 32000),
                                applied("pad_token_id", 32000), applied(kWindow)});
  const KeyTable qwen = decoder_keys().with(windows).with(
      {applied("vocab_size", 151936), applied("intermediate_size", 22016), applied("num_key_value_heads", 32),
       applied("max_position_embeddings", 32768), applied("use_sliding_window", false),
       applied("max_window_layers", 28), applied("layer_types"), applied("eos_token_id")});
  return type == "qwen2" ? qwen : qwen.with({applied("head_dim", 128), applied("attention_bias", false)});
}

// The window of each layer; 0: none.
std::vector<int64_t> windows(const Keys& config, const std::string& type, int64_t layers) {
  const bool qwen = type.starts_with("qwen");
  const bool some = qwen ? config.flag("use_sliding_window") : config.has(kWindow);
  std::vector<int64_t> all(static_cast<size_t>(layers));
  if (!some || !config.has(kWindow)) return all;
  const int64_t keys = config.integer(kWindow, 1, INT32_MAX);
  const std::vector<std::string> types = layer_types(config, layers);
  const int64_t first = qwen ? config.integer("max_window_layers", 0, INT32_MAX) : 0;
  for (size_t l = 0; l < all.size(); ++l) {
    const bool here = types.empty() ? static_cast<int64_t>(l) >= first : types[l] == kSlidingLayer;
    all[l] = here ? keys : 0;
  }
  return all;
}

Names names_of(const std::string& type) {
  Names names{.rules = {{"embedding.weight", {"embed_tokens.weight"}},
                        {"layers.{}.self_attn.out_proj.weight", {"layers.{}.self_attn.o_proj.weight"}},
                        {"layers.{}.self_attn.out_proj.bias", {"layers.{}.self_attn.o_proj.bias"}},
                        {"layers.{}.self_attn.q_norm.weight", {"layers.{}.self_attn.q_norm.weight"}},
                        {"layers.{}.self_attn.k_norm.weight", {"layers.{}.self_attn.k_norm.weight"}},
                        {"layers.{}.linear2.weight", {"layers.{}.mlp.down_proj.weight"}},
                        {"layers.{}.norm1.weight", {"layers.{}.input_layernorm.weight"}},
                        {"layers.{}.norm2.weight", {"layers.{}.post_attention_layernorm.weight"}},
                        {"norm.weight", {"norm.weight"}}},
              .prefixes = {"model.", ""},
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
  for (const std::string kind : {"weight", "bias"})
    names.rules.push_back({"layers.{}.linear1." + kind, {mlp + "gate_proj." + kind, mlp + "up_proj." + kind}});
  names.rules.push_back({"layers.{}.linear2.bias", {mlp + "down_proj.bias"}});
  return names;
}

Described describe(const Keys& config, const TensorSource& stored) {
  const std::string type = config.text("model_type");
  LanguageModelConfig own = decoder_sizes(config);
  own.dropout = config.number("embd_pdrop", 0, 0.99, 0);
  const int64_t head_dim = config.integer("head_dim", 1, 65536, std::max<int64_t>(1, own.d_model / own.nhead));
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim);
  const bool bias = config.flag("attention_bias");
  layer.dropout = config.number("resid_pdrop", 0, 0.99, 0);
  layer.activation.activation = activation_of(config, "hidden_act");
  layer.qkv_bias = bias || type == "qwen2";
  layer.out_bias = bias;
  layer.bias = config.flag("mlp_bias");
  layer.rotary_options = rotation(config, head_dim, {.partial = type == "phi3"});
  layer.heads.norm = type == "qwen3";
  LanguageModelDetails details;
  for (const int64_t keys : windows(config, type, own.num_layers)) {
    details.layers.push_back(layer);
    details.layers.back().heads.window = window_of(keys);
  }
  return language_model(config, own, std::move(details), names_of(type), "embed_tokens.weight", stored);
}

}  // namespace

const Family kLlama{.model_types = {"llama", "mistral", "qwen2", "qwen3", "phi3"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
