#include "pretrained/family.h"

#include "heed/error.h"
#include "heed/io.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {

const Family& family_of(const Keys& config) {
  const std::string type = config.text("model_type");
  std::string known;
  for (const Family* family : {&kGpt2, &kLlama, &kGemma, &kGptOss, &kBert, &kMarian, &kT5, &kVit, &kWhisper})
    for (const std::string& name : family->model_types) {
      if (name == type) return *family;
      known += (known.empty() ? "" : ", ") + name;
    }
  config.fail("model_type", "heed has " + known);
}

Activation activation_of(const Keys& config, const std::string& key, const std::string& fallback) {
  const std::string name = config.text(key, fallback);
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.fail(key, "heed has relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu and swish");
}

int64_t size_of(const Keys& config, const std::string& key) { return config.integer(key, 1, 10'000'000); }

LanguageModelConfig decoder_sizes(const Keys& config, bool tied) {
  const int64_t heads = size_of(config, "num_attention_heads");
  return {.vocab_size = size_of(config, "vocab_size"),
          .d_model = size_of(config, "hidden_size"),
          .nhead = heads,
          .num_kv_heads = config.integer("num_key_value_heads", 1, heads, heads),
          .num_layers = config.integer("num_hidden_layers", 1, 1000),
          .dim_feedforward = size_of(config, "intermediate_size"),
          .dropout = 0,
          .positions = "rotary",
          .max_positions = positions_of(config),
          .tie_embeddings = config.flag("tie_word_embeddings", tied)};
}

TransformerLayerOptions decoder_layer(const Keys& config, const LanguageModelConfig& sizes, int64_t head_dim,
                                      double epsilon) {
  TransformerLayerOptions layer{.d_model = sizes.d_model,
                                .nhead = sizes.nhead,
                                .kv_heads = sizes.num_kv_heads,
                                .dim_feedforward = sizes.dim_feedforward,
                                .dropout = 0,
                                .attention_dropout = config.number("attention_dropout", 0, 0.99, 0),
                                .activation = {Activation::silu, /*gated=*/true},
                                .norm = NormKind::rms_norm,
                                .norm_epsilon = config.number("rms_norm_eps", 0, 1, epsilon),
                                .norm_first = true,
                                .bias = false,
                                .rotary = true,
                                .head_dim = head_dim};
  layer.heads.norm_epsilon = layer.norm_epsilon;
  return layer;
}

std::vector<std::string> class_labels(const Keys& config) {
  const std::optional<Keys> by_number = config.object("id2label");
  std::vector<std::string> labels;
  for (int64_t i = 0; i < (by_number ? by_number->size() : 2); ++i)
    labels.push_back(by_number ? by_number->text(std::to_string(i)) : "LABEL_" + std::to_string(i));
  if (labels.empty()) config.fail("id2label", "it must name a class");
  return labels;
}

ClassScores class_scores(const Keys& config, size_t labels) {
  const std::string kind =
      config.text("problem_type", labels == 1 ? "multi_label_classification" : "single_label_classification");
  if (kind == "regression") return ClassScores::values;
  if (kind == "multi_label_classification") return ClassScores::each;
  if (kind == "single_label_classification") return ClassScores::one_of_all;
  config.fail("problem_type", "heed has single_label_classification, multi_label_classification and regression");
}

Described language_model(LanguageModelConfig config, LanguageModelDetails details, Names names) {
  names.layers = config.num_layers;
  if (config.tie_embeddings) names.copies.emplace_back("lm_head.weight");
  return {.make = [config, details] { return std::make_unique<LanguageModel>(config, details); },
          .names = std::move(names)};
}

}  // namespace heed::inline v0
