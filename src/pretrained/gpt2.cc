// GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners").
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

Described describe(const Keys& config, const std::vector<std::string>&) {
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) config.require_flag(key, false);
  config.require_flag("scale_attn_weights", true);
  const int64_t width = size_of(config, "n_embd");
  const LanguageModelConfig own{.vocab_size = size_of(config, "vocab_size"),
                                .d_model = width,
                                .nhead = size_of(config, "n_head"),
                                .num_layers = config.integer("n_layer", 1, 1000),
                                .dim_feedforward = config.integer("n_inner", 1, 10'000'000, 4 * width),
                                .dropout = config.number("embd_pdrop", 0, 0.99, 0.1),
                                .positions = "learned",
                                .max_positions = size_of(config, "n_positions"),
                                .tie_embeddings = config.flag("tie_word_embeddings", true)};
  const TransformerLayerOptions layer{.d_model = width,
                                      .nhead = own.nhead,
                                      .dim_feedforward = own.dim_feedforward,
                                      .dropout = config.number("resid_pdrop", 0, 0.99, 0.1),
                                      .attention_dropout = config.number("attn_pdrop", 0, 0.99, 0.1),
                                      .activation = {activation_of(config, "activation_function", "gelu_new")},
                                      .norm_epsilon = config.number("layer_norm_epsilon", 0, 1, 1e-5),
                                      .norm_first = true};
  Names names{.rules = {{"embedding.weight", {"wte.weight"}},
                        {"positions.weight", {"wpe.weight"}},
                        {"output.weight", {"lm_head.weight"}},
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
              .without_prefix = {"lm_head."},
              .unused = {"*.attn.bias", "*.attn.masked_bias"}};  // masks
  return language_model(own, {.layers = std::vector(static_cast<size_t>(own.num_layers), layer)}, std::move(names));
}

}  // namespace

const Family kGpt2{.model_types = {"gpt2"}, .describe = describe};

}  // namespace heed::inline v0
