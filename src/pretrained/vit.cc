// The Vision Transformer (Dosovitskiy et al. 2021), alone or with its classifier.
#include <algorithm>

#include "heed/image_encoder.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

// One number for both sides, or height and width.
ImageSize sides(const Keys& config, const std::string& key) {
  if (config.is_number(key)) {
    const int64_t side = config.integer(key, 1, kLongestSide);
    return {side, side};
  }
  return height_and_width(config, key);
}

PretrainedHead head_of(const Keys& config, const Names& names, const TensorSource& stored) {
  const std::string wrote = class_of(config);
  if (wrote.empty() || wrote.ends_with("Model")) return {};
  if (!wrote.ends_with("ForImageClassification")) return {.missing = head_unknown(config)};
  if (const auto lacks = missing_of_head(names, {{"head.output", {"classifier.weight", "classifier.bias"}}}, stored))
    return {.missing = head_without(config, *lacks)};
  PretrainedHead head = text_classes(config);
  head.task = HeadTask::picture_classes;
  return head;
}

Names names_of(bool older) {
  Names names{.rules = {{"class_token", {"embeddings.cls_token"}, Change::reshape},
                        {"positions.weight", {"embeddings.position_embeddings"}, Change::reshape},
                        {"patches.weight", {"embeddings.patch_embeddings.projection.weight"}, Change::reshape},
                        {"patches.bias", {"embeddings.patch_embeddings.projection.bias"}}},
              .prefixes = {"vit.", ""},
              .heads = {"classifier.", "decoder.0."},
              // ViTForMaskedImageModeling has the token of masks; heed gives the states before the pooler.
              .unused = {"embeddings.mask_token", "pooler.*"}};
  const std::string own = "layers.{}.", theirs = older ? "encoder.layer.{}." : "layers.{}.";
  const std::string heads = theirs + (older ? "attention.attention." : "attention.");
  const auto pick = [older](const char* old, const char* now) { return std::string(older ? old : now); };
  for (const std::string kind : {".weight", ".bias"}) {
    const auto rule = [&](const std::string& to, const std::string& from) {
      names.rules.push_back({own + to + kind, {theirs + from + kind}});
    };
    names.rules.push_back({own + "self_attn.in_proj_" + kind.substr(1),
                           {heads + pick("query", "q_proj") + kind, heads + pick("key", "k_proj") + kind,
                            heads + pick("value", "v_proj") + kind}});
    rule("self_attn.out_proj", pick("attention.output.dense", "attention.o_proj"));
    rule("norm1", "layernorm_before");
    rule("norm2", "layernorm_after");
    rule("linear1", pick("intermediate.dense", "mlp.fc1"));
    rule("linear2", pick("output.dense", "mlp.fc2"));
    names.rules.push_back({"norm" + kind, {"layernorm" + kind}});
    names.rules.push_back({"head.output" + kind, {"classifier" + kind}});
  }
  return names;
}

KeyTable keys(const std::string&) {
  return common_keys().with(
      {applied("hidden_size", 768), applied("num_hidden_layers", 12), applied("num_attention_heads", 12),
       applied("intermediate_size", 3072), applied("head_dim"), applied("hidden_act", "gelu"),
       applied("hidden_dropout_prob", 0.0), applied("attention_probs_dropout_prob", 0.0),
       applied("layer_norm_eps", 1e-12), applied("image_size", 224), applied("patch_size", 16),
       applied("num_channels", 3), applied("qkv_bias", true),
       harmless("encoder_stride", "ViTForMaskedImageModeling reads it, which heed does not support"),
       harmless("pooler_output_size", "heed gives the states before the pooler"),
       harmless("pooler_act", "heed gives the states before the pooler")});
}

Described describe(const Keys& config, const TensorSource& stored) {
  const int64_t width = size_of(config, "hidden_size"), heads = size_of(config, "num_attention_heads");
  const bool older = std::any_of(stored.names.begin(), stored.names.end(),
                                 [](const auto& name) { return name.find("encoder.layer.") != std::string::npos; });
  Names names = names_of(older);
  PretrainedHead head = head_of(config, names, stored);
  ImageEncoderConfig own{.image = sides(config, "image_size"),
                         .patch = sides(config, "patch_size"),
                         .channels = config.integer("num_channels", 1, 1000),
                         .d_model = width,
                         .dropout = config.number("hidden_dropout_prob", 0, 0.99),
                         .classes = std::ssize(head.labels)};
  const TransformerLayerOptions layer{
      .d_model = width,
      .nhead = heads,
      .dim_feedforward = size_of(config, "intermediate_size"),
      .dropout = own.dropout,
      .attention_dropout = config.number("attention_probs_dropout_prob", 0, 0.99),
      .activation = {activation_of(config, "hidden_act")},
      .norm_epsilon = config.number("layer_norm_eps", 0, 1),
      .norm_first = true,
      .qkv_bias = config.flag("qkv_bias"),
      .head_dim = config.integer("head_dim", 1, 65536, std::max<int64_t>(1, width / heads))};
  own.layers.assign(static_cast<size_t>(layers_of(config, "num_hidden_layers")), layer);
  const Names others = names_of(!older);
  const auto module = [](const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); };
  for (size_t i = 0; i < names.rules.size(); ++i)
    for (size_t k = 0; k < names.rules[i].theirs.size(); ++k)
      if (others.rules[i].theirs[k] != names.rules[i].theirs[k])
        names.other_versions.emplace_back(module(others.rules[i].theirs[k]), module(names.rules[i].theirs[k]));
  names.layers = std::ssize(own.layers);
  return {.make = [own] { return std::make_unique<ImageEncoder>(own); },
          .names = std::move(names),
          .head = std::move(head)};
}

}  // namespace

const Family kVit{.model_types = {"vit"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
