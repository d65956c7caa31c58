// Gemma 1, 2 and 3 (arXiv 2403.08295, 2408.00118, 2503.19786), the text models.
#include <cmath>

#include "pretrained/family.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {
namespace {

KeyTable keys(const std::string& type) {
  const KeyTable common =
      decoder_keys().with({applied("vocab_size", 256000), applied("head_dim", 256),
                           applied("max_position_embeddings", 8192), applied("tie_word_embeddings", true),
                           applied("attention_bias", false), applied("eos_token_id", 1), applied("pad_token_id", 0),
                           // Only some of transformers' attention implementations follow it.
                           only("use_bidirectional_attention", false)});
  if (type == "gemma")
    return common.with({applied("hidden_size", 3072), applied("intermediate_size", 24576),
                        applied("num_hidden_layers", 28), applied("num_attention_heads", 16),
                        applied("num_key_value_heads", 16), applied("hidden_act", "gelu_pytorch_tanh")});
  const KeyTable second =
      common.with({applied("hidden_size", 2304), applied("intermediate_size", 9216), applied("num_hidden_layers", 26),
                   applied("num_attention_heads", 8), applied("num_key_value_heads", 4),
                   applied("hidden_activation", "gelu_pytorch_tanh"), applied("query_pre_attn_scalar", 256),
                   applied("sliding_window", 4096), applied("layer_types"), applied("final_logit_softcapping", 30.0),
                   applied("attn_logit_softcapping", 50.0)});
  if (type == "gemma2") return second;
  return second.with({applied("vocab_size", 262208), applied("max_position_embeddings", 131072),
                      applied("final_logit_softcapping"),
                      harmless("attn_logit_softcapping", "the attention of Gemma 3 does not read it"),
                      applied("sliding_window_pattern", 6), applied("rope_local_base_freq"),
                      applied("use_bidirectional_attention", false)});
}

std::vector<std::string> types_of_layers(const Keys& config, int version, int64_t layers) {
  std::vector<std::string> types = layer_types(config, layers);
  if (!types.empty()) return types;
  const int64_t pattern = version == 3 ? config.integer("sliding_window_pattern", 1, 1000) : 2;
  for (int64_t l = 0; l < layers; ++l)
    types.emplace_back(version > 1 && (l + 1) % pattern != 0 ? kSlidingLayer : kFullLayer);
  return types;
}

Names names_of(int version) {
  const std::string layer = "layers.{}.", heads = layer + "self_attn.", mlp = layer + "mlp.";
  Names names{
      .rules = {{"embedding.weight", {"embed_tokens.weight"}},
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

// The window of a layer. A bidirectional model has half a window on each side.
Window window_of_layer(const Keys& config, bool sliding, bool both_ways) {
  const int64_t keys = sliding ? config.integer("sliding_window", 1, INT32_MAX) : 0;
  return both_ways && sliding ? Window{.left = keys / 2, .right = keys / 2} : window_of(keys);
}

Described describe(const Keys& config, const TensorSource& stored) {
  const std::string type = config.text("model_type");
  const int version = type == "gemma" ? 1 : type == "gemma2" ? 2 : 3;
  const bool both_ways = version == 3 && config.flag("use_bidirectional_attention");
  const LanguageModelConfig own = decoder_sizes(config);
  const int64_t head_dim = config.integer("head_dim", 1, 65536);
  TransformerLayerOptions layer = decoder_layer(config, own, head_dim);
  const std::string key = version == 1 ? "hidden_act" : "hidden_activation";
  // In files of version 1, "gelu" means the tanh form.
  layer.activation.activation =
      version == 1 && config.text(key) == "gelu" ? Activation::gelu_tanh : activation_of(config, key);
  layer.norm_after = version > 1;
  layer.qkv_bias = layer.out_bias = config.flag("attention_bias");
  layer.heads.norm = version == 3;
  if (version > 1) layer.scale = 1 / std::sqrt(config.number("query_pre_attn_scalar", 1e-6, 1e9));
  if (version == 2) layer.heads.softcap = config.number("attn_logit_softcapping", 0, 1e9, 0);
  LanguageModelDetails details{.embedding_factor = std::sqrt(static_cast<double>(own.d_model)),
                               .logit_softcap = config.number("final_logit_softcapping", 0, 1e9, 0)};
  for (const std::string& kind : types_of_layers(config, version, own.num_layers)) {
    const bool sliding = kind == kSlidingLayer;
    layer.heads.window = window_of_layer(config, sliding, both_ways);
    layer.rotary_options = version == 3 ? rotation_of_type(config, head_dim, sliding) : rotation(config, head_dim);
    details.layers.push_back(layer);
  }
  if (both_ways) details.causal = false;
  return language_model(config, own, std::move(details), names_of(version), "embed_tokens.weight", stored);
}

}  // namespace

const Family kGemma{.model_types = {"gemma", "gemma2", "gemma3_text"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
