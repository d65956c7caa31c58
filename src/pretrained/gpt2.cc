// GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners").
#include <cmath>

#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

KeyTable keys(const std::string&) {
  constexpr const char* kSummary = "GPT2DoubleHeadsModel reads it, which heed does not support";
  return common_keys().with({applied("vocab_size", 50257),
                             applied("n_positions", 1024),
                             applied("n_embd", 768),
                             applied("n_layer", 12),
                             applied("n_head", 12),
                             applied("n_inner"),
                             applied("activation_function", "gelu_new"),
                             applied("resid_pdrop", 0.1),
                             applied("embd_pdrop", 0.1),
                             applied("attn_pdrop", 0.1),
                             applied("layer_norm_epsilon", 1e-5),
                             applied("scale_attn_weights", true),
                             applied("scale_attn_by_inverse_layer_idx", false),
                             applied("tie_word_embeddings", true),
                             applied("is_causal", true),
                             applied("eos_token_id", 50256),
                             applied("pad_token_id"),
                             only("add_cross_attention", false),
                             alias("hidden_size", "n_embd"),
                             alias("max_position_embeddings", "n_positions"),
                             alias("num_attention_heads", "n_head"),
                             alias("num_hidden_layers", "n_layer"),
                             harmless("reorder_and_upcast_attn", "the same sums, in float32"),
                             harmless("summary_type", kSummary),
                             harmless("summary_use_proj", kSummary),
                             harmless("summary_activation", kSummary),
                             harmless("summary_proj_to_labels", kSummary),
                             harmless("summary_first_dropout", kSummary)});
}

Described describe(const Keys& config, const TensorSource& stored) {
  const int64_t width = size_of(config, "n_embd");
  const LanguageModelConfig own{.vocab_size = size_of(config, "vocab_size"),
                                .d_model = width,
                                .nhead = size_of(config, "n_head"),
                                .num_layers = layers_of(config, "n_layer"),
                                .dim_feedforward = config.integer("n_inner", 1, 10'000'000, 4 * width),
                                .dropout = config.number("embd_pdrop", 0, 0.99),
                                .positions = "learned",
                                .max_positions = size_of(config, "n_positions")};
  TransformerLayerOptions layer{.d_model = width,
                                .nhead = own.nhead,
                                .dim_feedforward = own.dim_feedforward,
                                .dropout = config.number("resid_pdrop", 0, 0.99),
                                .attention_dropout = config.number("attn_pdrop", 0, 0.99),
                                .activation = {activation_of(config, "activation_function")},
                                .norm_epsilon = config.number("layer_norm_epsilon", 0, 1),
                                .norm_first = true};
  const double scale =
      config.flag("scale_attn_weights") ? std::sqrt(static_cast<double>(own.nhead) / static_cast<double>(width)) : 1;
  LanguageModelDetails details;
  for (int64_t l = 0; l < own.num_layers; ++l) {
    layer.scale = config.flag("scale_attn_by_inverse_layer_idx") ? scale / static_cast<double>(l + 1) : scale;
    details.layers.push_back(layer);
  }
  Names names{.rules = {{"embedding.weight", {"wte.weight"}},
                        {"positions.weight", {"wpe.weight"}},
                        {"layers.{}.self_attn.in_proj_weight", {"h.{}.attn.c_attn.weight"}, Change::transpose},
                        {"layers.{}.self_attn.in_proj_bias", {"h.{}.attn.c_attn.bias"}},
                        {"layers.{}.self_attn.out_proj.weight", {"h.{}.attn.c_proj.weight"}, Change::transpose},
                        {"layers.{}.self_attn.out_proj.bias", {"h.{}.attn.c_proj.bias"}},
                        {"layers.{}.linear1.weight", {"h.{}.mlp.c_fc.weight"}, Change::transpose},
                        {"layers.{}.linear1.bias", {"h.{}.mlp.c_fc.bias"}},
                        {"layers.{}.linear2.weight", {"h.{}.mlp.c_proj.weight"}, Change::transpose},
                        {"layers.{}.linear2.bias", {"h.{}.mlp.c_proj.bias"}},
                        {"layers.{}.norm1.weight", {"h.{}.ln_1.weight"}},
                        {"layers.{}.norm1.bias", {"h.{}.ln_1.bias"}},
                        {"layers.{}.norm2.weight", {"h.{}.ln_2.weight"}},
                        {"layers.{}.norm2.bias", {"h.{}.ln_2.bias"}},
                        {"norm.weight", {"ln_f.weight"}},
                        {"norm.bias", {"ln_f.bias"}}},
              .prefixes = {"transformer.", ""},
              .heads = {"classifier.", "multiple_choice_head.summary."},
              .unused = {"*.attn.bias", "*.attn.masked_bias"}};  // masks
  return language_model(config, own, std::move(details), std::move(names), "wte.weight", stored);
}

}  // namespace

const Family kGpt2{.model_types = {"gpt2"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
