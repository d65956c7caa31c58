// T5 (Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer"), 1.0, 1.1 and Flan.
#include <algorithm>
#include <cmath>

#include "pretrained/bart_layers.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

KeyTable keys(const std::string&) {
  return common_keys().with({applied("vocab_size", 32128),
                             applied("d_model", 512),
                             applied("d_kv", 64),
                             applied("d_ff", 2048),
                             applied("num_layers", 6),
                             applied("num_decoder_layers"),
                             applied("num_heads", 8),
                             applied("relative_attention_num_buckets", 32),
                             applied("relative_attention_max_distance", 128),
                             applied("dropout_rate", 0.1),
                             applied("layer_norm_epsilon", 1e-6),
                             applied("feed_forward_proj", "relu"),
                             applied("pad_token_id", 0),
                             applied("eos_token_id", 1),
                             applied("decoder_start_token_id", 0),
                             applied("tie_word_embeddings", true),
                             applied("scale_decoder_outputs"),
                             alias("hidden_size", "d_model"),
                             alias("num_attention_heads", "num_heads"),
                             alias("num_hidden_layers", "num_layers"),
                             alias("head_dim", "d_kv"),
                             applied("is_encoder_decoder", true),
                             harmless("is_decoder", "each stack has its own"),
                             applied("dense_act_fn"),  // both override feed_forward_proj
                             applied("is_gated_act"),
                             harmless("initializer_factor", "it is for new weights"),
                             harmless("classifier_dropout", "heed has no such head")});
}

Names names_of(const TransformerConfig& config, bool gated) {
  Names names{.rules = {},
              .layers = std::max(config.num_encoder_layers, config.num_decoder_layers),
              .heads = {kHeadTable, "classification_head.dense.", "classification_head.out_proj.", "classifier.",
                        "qa_outputs."},
              .unused = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const bool crossed = stack == "decoder";
    const std::string own = stack + ".layers.{}.", block = stack + ".block.{}.layer.";
    const std::string last = crossed ? "2" : "1", dense = block + last + ".DenseReluDense.";
    const auto attention = [&](const std::string& to, const std::string& from) {
      names.rules.push_back({own + to + ".in_proj_weight",
                             {block + from + ".q.weight", block + from + ".k.weight", block + from + ".v.weight"}});
      names.rules.push_back({own + to + ".out_proj.weight", {block + from + ".o.weight"}});
    };
    attention("self_attn", "0.SelfAttention");
    if (crossed) attention("multihead_attn", "1.EncDecAttention");
    names.rules.push_back({own + "norm1.weight", {block + "0.layer_norm.weight"}});
    if (crossed) names.rules.push_back({own + "norm2.weight", {block + "1.layer_norm.weight"}});
    names.rules.push_back({own + (crossed ? "norm3" : "norm2") + ".weight", {block + last + ".layer_norm.weight"}});
    names.rules.push_back({own + "linear1.weight", gated ? std::vector{dense + "wi_0.weight", dense + "wi_1.weight"}
                                                         : std::vector{dense + "wi.weight"}});
    names.rules.push_back({own + "linear2.weight", {dense + "wo.weight"}});
    names.rules.push_back({stack + ".norm.weight", {stack + ".final_layer_norm.weight"}});
    names.rules.push_back({crossed ? "target_bias.weight" : "source_bias.weight",
                           {stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"}});
  }
  return names;
}

bool any_has(const TensorSource& stored, const std::string& part) {
  return std::any_of(stored.names.begin(), stored.names.end(),
                     [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

Described describe(const Keys& config, const TensorSource& stored) {
  const std::string projection = config.text("feed_forward_proj"), wrote = class_of(config);
  const bool named_gated = projection.starts_with("gated-"), has_decoder = any_has(stored, "decoder.block."),
             encodes = wrote.ends_with("EncoderModel") || !has_decoder;
  const bool gated = config.flag("is_gated_act", named_gated);
  if (!encodes && !config.flag("is_encoder_decoder"))
    config.fail("is_encoder_decoder", "heed supports this kind of model only with true");
  // The output layer of version 1.0 takes scaled states; newer files have a key for it.
  const bool scaled = config.has("scale_decoder_outputs") ? config.flag("scale_decoder_outputs")
                                                          : config.flag("tie_word_embeddings", true);
  const int64_t width = size_of(config, "d_model"), encoder_layers = layers_of(config, "num_layers");
  TransformerConfig own{
      .vocab_size = size_of(config, "vocab_size"),
      .d_model = width,
      .nhead = size_of(config, "num_heads"),
      .num_encoder_layers = encoder_layers,
      .num_decoder_layers = encodes ? 0 : config.integer("num_decoder_layers", 1, 1000, encoder_layers),
      .dim_feedforward = size_of(config, "d_ff"),
      .dropout = config.number("dropout_rate", 0, 0.99),
      .positions = "relative",
      .max_positions = 1 << 20,  // no limit: attention depends on distances only
      .pad_id = static_cast<int32_t>(config.integer("pad_token_id", 0, INT32_MAX, 0)),
      .bos_id = static_cast<int32_t>(config.integer("decoder_start_token_id", 0, INT32_MAX, 0)),
      .eos_id = encodes ? 1 : end_of_text(config)};
  // "gated-gelu" and "gated-gelu_new" both mean the tanh form.
  const std::string projected = projection == "gated-gelu" ? "gelu_new" : projection.substr(named_gated ? 6 : 0);
  const Activation activation = config.has("dense_act_fn") ? activation_of(config, "dense_act_fn")
                                                           : activation_named(config, "feed_forward_proj", projected);
  const TransformerLayerOptions layer{.d_model = width,
                                      .nhead = own.nhead,
                                      .dim_feedforward = own.dim_feedforward,
                                      .dropout = own.dropout,
                                      .attention_dropout = own.dropout,
                                      .activation_dropout = own.dropout,
                                      .activation = {activation, gated},
                                      .norm = NormKind::rms_norm,
                                      .norm_epsilon = config.number("layer_norm_epsilon", 0, 1),
                                      .norm_first = true,
                                      .bias = false,
                                      .head_dim = config.integer("d_kv", 1, 65536),
                                      .scale = 1};
  TransformerDetails details{.encoder = std::vector(static_cast<size_t>(own.num_encoder_layers), layer),
                             .decoder = std::vector(static_cast<size_t>(own.num_decoder_layers), layer),
                             .encoder_norm = true,
                             .decoder_norm = !encodes,
                             .relative_buckets = config.integer("relative_attention_num_buckets", 4, 1 << 20),
                             .relative_distance = config.integer("relative_attention_max_distance", 2, 1 << 20),
                             .state_factor = scaled ? 1 / std::sqrt(static_cast<double>(width)) : 1};
  Described described{.make = {}, .names = names_of(own, gated)};
  // The classes that classify have the rest of the model under this name.
  if (const char* const inner = "transformer."; any_has(stored, std::string(inner) + "encoder."))
    described.names.prefixes = {inner};
  if (!wrote.empty() && !wrote.ends_with("ForConditionalGeneration") && !wrote.ends_with("Model"))
    described.head.missing = head_unknown(config);
  else if (encodes && !wrote.empty() && !wrote.ends_with("EncoderModel"))
    described.head.missing = "whose file has no decoder, which " + wrote + " needs";
  details.has_head = described.head.missing.empty();
  details.missing_head = described.head.missing;
  // Independent of tie_word_embeddings: a separate head is one stored with other values.
  const std::vector<Tie> ties{{kEncoderTable, kSharedTable}, {kDecoderTable, kSharedTable}, {kHeadTable, kSharedTable}};
  settle_tables(ties, stored, described.names, own, details);
  if (encodes) described.names.unused.emplace_back("decoder.*");
  described.make = [own, details] { return std::make_unique<Transformer>(own, details); };
  return described;
}

}  // namespace

const Family kT5{.model_types = {"t5"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
