#include "pretrained/family.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/io.h"
#include "pretrained/rotation.h"

namespace heed::inline v0 {

const std::vector<const Family*>& all_families() {
  static const std::vector<const Family*> all{&kGpt2,   &kLlama, &kGemma, &kGptOss, &kBert,
                                              &kMarian, &kT5,    &kVit,   &kWhisper};
  return all;
}

const Family& family_of(const Keys& config) {
  const std::string type = config.text("model_type");
  std::string known;
  for (const Family* family : all_families())
    for (const std::string& name : family->model_types) {
      if (name == type) return *family;
      known += (known.empty() ? "" : ", ") + name;
    }
  config.fail("model_type", "heed has " + known);
}

// ------------------------------------------------------------------------------------------------------------- keys

KeyTable common_keys() {
  constexpr const char* kOutput = "it selects what a call in Python returns";
  constexpr const char* kBookkeeping = "internal to transformers";
  constexpr const char* kType = "tensors keep their type in the file, and sums are in float32";
  return {applied("model_type"),
          applied("architectures"),
          applied("id2label"),
          applied("num_labels", 2),
          applied("problem_type"),
          harmless("label2id", "id2label says the same"),
          only("is_encoder_decoder", false),
          only("per_layer_config", nullptr),
          only("quantization_config", nullptr),
          only("compression_config", nullptr),
          only("transformers_weights", nullptr),
          only("fusion_config", nullptr),
          only("distributed_config", nullptr),
          harmless("dtype", kType),
          harmless("torch_dtype", kType),
          harmless("output_hidden_states", kOutput),
          harmless("output_attentions", kOutput),
          harmless("return_dict", kOutput),
          harmless("use_return_dict", kOutput),
          harmless("tie_last_hidden_states", kOutput),
          harmless("use_cache", "a cache changes no result"),
          harmless("chunk_size_feed_forward", "the same sums in pieces"),
          harmless("initializer_range", "it is for new weights"),
          harmless("gradient_checkpointing", "it trades memory for time"),
          harmless("attn_implementation", "all compute the same"),
          harmless("experts_implementation", "all compute the same"),
          harmless("transformers_version", kBookkeeping),
          harmless("name_or_path", kBookkeeping),
          harmless("task_specific_params", "pipelines read it, models do not"),
          harmless("sep_token_id", "models do not read it"),
          harmless("cls_token_id", "models do not read it"),
          harmless("bos_token_id", "the tokenizer and generation_config.json say it"),
          applied("eos_token_id"),
          harmless("pad_token_id", "rows are not padded")};
}

KeyTable decoder_keys() {
  return common_keys().with({applied("vocab_size", 32000),
                             applied("hidden_size", 4096),
                             applied("intermediate_size", 11008),
                             applied("num_hidden_layers", 32),
                             applied("num_attention_heads", 32),
                             applied("num_key_value_heads"),
                             applied("head_dim"),
                             applied("hidden_act", "silu"),
                             applied("max_position_embeddings", 2048),
                             applied("rms_norm_eps", 1e-6),
                             applied("tie_word_embeddings", false),
                             applied("attention_dropout", 0.0),
                             applied("rope_parameters"),
                             applied("rope_scaling"),
                             applied("rope_theta"),
                             applied("partial_rotary_factor"),
                             applied("original_max_position_embeddings"),
                             applied("is_causal", true),
                             applied("eos_token_id", 2),
                             applied("pad_token_id")});
}

KeyTable bart_keys() {
  constexpr const char* kDrop = "heed trains every layer in every update";
  return common_keys().with({applied("vocab_size", 50265),
                             applied("max_position_embeddings", 1024),
                             applied("encoder_layers", 12),
                             applied("encoder_ffn_dim", 4096),
                             applied("encoder_attention_heads", 16),
                             applied("decoder_layers", 12),
                             applied("decoder_ffn_dim", 4096),
                             applied("decoder_attention_heads", 16),
                             applied("activation_function", "gelu"),
                             applied("d_model", 1024),
                             applied("dropout", 0.1),
                             applied("attention_dropout", 0.0),
                             applied("activation_dropout", 0.0),
                             applied("scale_embedding", false),
                             applied("pad_token_id", 1),
                             applied("eos_token_id", 2),
                             applied("decoder_start_token_id", 2),
                             applied("tie_word_embeddings", true),
                             only("is_encoder_decoder", true),
                             only("is_decoder", false),
                             alias("num_attention_heads", "encoder_attention_heads"),
                             alias("hidden_size", "d_model"),
                             alias("num_hidden_layers", "encoder_layers"),
                             harmless("encoder_layerdrop", kDrop),
                             harmless("decoder_layerdrop", kDrop),
                             harmless("classifier_dropout", "heed trains heads without dropout"),
                             harmless("init_std", "it is for new weights"),
                             harmless("forced_bos_token_id", "generation_config.json says it"),
                             harmless("forced_eos_token_id", "generation_config.json says it")});
}

// ----------------------------------------------------------------------------------------------------------- values

Activation activation_named(const Keys& config, const std::string& key, const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu" || name == "gelu_python") return Activation::gelu;
  for (const char* tanh_form : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"})
    if (name == tanh_form) return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  if (name == "quick_gelu") return Activation::quick_gelu;
  if (name == "gelu_10") return Activation::gelu_10;
  if (name == "relu2") return Activation::relu_squared;
  config.fail(key,
              "heed has relu, relu2, gelu, gelu_10, gelu_accurate, gelu_fast, gelu_new, gelu_python, gelu_python_tanh, "
              "gelu_pytorch_tanh, quick_gelu, silu, swish and tanh");
}

Activation activation_of(const Keys& config, const std::string& key) {
  return activation_named(config, key, config.text(key));
}

int64_t size_of(const Keys& config, const std::string& key) { return config.integer(key, 1, 10'000'000); }
int32_t end_of_text(const Keys& config) {
  const std::vector<int32_t> ends = config.ids("eos_token_id");
  if (ends.empty()) config.fail("eos_token_id", "it must be an id or a list of ids");
  return ends[0];
}
ImageSize height_and_width(const Keys& keys, const std::string& key) {
  const std::vector<double> both = keys.numbers(key, 1, kLongestSide);
  if (both.size() != 2 || std::floor(both[0]) != both[0] || std::floor(both[1]) != both[1])
    keys.fail(key, "it must be one whole number, or two, height and width");
  return {static_cast<int64_t>(both[0]), static_cast<int64_t>(both[1])};
}
int64_t layers_of(const Keys& config, const std::string& key) { return config.integer(key, 1, 1000); }

std::string class_of(const Keys& config) {
  const std::vector<std::string> names = config.texts("architectures");
  return names.empty() ? "" : names[0];
}

std::vector<std::string> class_labels(const Keys& config) {
  const std::optional<Keys> by_number = config.object("id2label");
  constexpr int64_t kMost = 1 << 17;
  const int64_t count =
      by_number && !config.is_given("num_labels") ? by_number->size() : config.integer("num_labels", 1, kMost);
  // transformers drops the names if their number differs.
  const bool named = by_number && by_number->size() == count;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(named ? by_number->text(std::to_string(i)) : "LABEL_" + std::to_string(i));
  if (labels.empty()) config.fail("id2label", "it must name a class");
  return labels;
}

// A single label gets a sigmoid, as in transformers' pipelines: a softmax over it would always be 1. Newer
// versions of transformers refuse "single_label_classification" with one label.
ClassScores class_scores(const Keys& config, size_t labels) {
  const std::string kind = config.text("problem_type", "single_label_classification");
  if (kind == "regression") return ClassScores::values;
  if (kind == "multi_label_classification") return ClassScores::each;
  if (kind == "single_label_classification") return labels == 1 ? ClassScores::each : ClassScores::one_of_all;
  config.fail("problem_type", "heed has single_label_classification, multi_label_classification and regression");
}

PretrainedHead text_classes(const Keys& config) {
  PretrainedHead head{.task = HeadTask::text_classes, .labels = class_labels(config)};
  head.scores = class_scores(config, head.labels.size());
  return head;
}

std::string head_without(const Keys& config, const std::string& tensor) {
  const std::string wrote = class_of(config);
  return "whose file has no tensor '" + tensor + "'" +
         (wrote.empty() ? ", so it has no head" : ", which the head of " + wrote + " needs");
}

std::string head_unknown(const Keys& config) {
  return "whose head, that of " + class_of(config) + ", heed does not have";
}

std::vector<std::string> layer_types(const Keys& config, int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != layers)
    config.fail("layer_types", "there are " + std::to_string(layers) + " layers");
  for (const std::string& type : types)
    if (type != kSlidingLayer && type != kFullLayer && type != "attention")
      config.fail("layer_types", "heed has sliding_attention and full_attention");
  return types;
}

LanguageModelConfig decoder_sizes(const Keys& config) {
  const int64_t heads = size_of(config, "num_attention_heads");
  return {.vocab_size = size_of(config, "vocab_size"),
          .d_model = size_of(config, "hidden_size"),
          .nhead = heads,
          .num_kv_heads = config.integer("num_key_value_heads", 1, heads, heads),
          .num_layers = layers_of(config, "num_hidden_layers"),
          .dim_feedforward = size_of(config, "intermediate_size"),
          .dropout = 0,
          .positions = "rotary",
          .max_positions = positions_of(config)};
}

TransformerLayerOptions decoder_layer(const Keys& config, const LanguageModelConfig& sizes, int64_t head_dim) {
  TransformerLayerOptions layer{.d_model = sizes.d_model,
                                .nhead = sizes.nhead,
                                .kv_heads = sizes.num_kv_heads,
                                .dim_feedforward = sizes.dim_feedforward,
                                .dropout = 0,
                                .attention_dropout = config.number("attention_dropout", 0, 0.99),
                                .activation = {Activation::silu, /*gated=*/true},
                                .norm = NormKind::rms_norm,
                                .norm_epsilon = config.number("rms_norm_eps", 0, 1),
                                .norm_first = true,
                                .bias = false,
                                .rotary = true,
                                .head_dim = head_dim};
  layer.heads.norm_epsilon = layer.norm_epsilon;
  return layer;
}

Described language_model(const Keys& config, LanguageModelConfig own, LanguageModelDetails details, Names names,
                         const std::string& embedding, const TensorSource& stored) {
  const std::string head = "lm_head.weight", wrote = class_of(config);
  const bool writes = wrote.empty() || wrote.ends_with("ForCausalLM") || wrote.ends_with("LMHeadModel");
  const bool bare = !writes && wrote.ends_with("Model");
  const bool classifies = wrote.ends_with("ForSequenceClassification");
  names.layers = own.num_layers;
  names.heads.insert(names.heads.end(), {head, "score.", "qa_outputs."});
  std::vector<Tie> ties;
  if ((writes || bare) && config.flag("tie_word_embeddings")) ties.push_back({head, embedding});
  settle_ties(names, ties, stored);
  const NameRule rule = classifies ? NameRule{"head.weight", {"score.weight"}} : NameRule{"output.weight", {head}};
  const std::optional<std::string> lacks = missing_of_head(names, {rule}, stored);
  const bool known = writes || bare || classifies;
  details.has_head = known && !lacks;
  own.tie_embeddings = classifies || !details.has_head || is_tied(names, head);  // else it has a matrix for its head
  Described described;
  if (!known)
    described.head.missing = head_unknown(config);
  else if (lacks && !bare)
    described.head.missing = head_without(config, *lacks);
  else if (classifies)
    described.head = text_classes(config);
  if (details.has_head) names.rules.push_back(rule);
  details.missing_head = described.head.missing;
  details.classes = std::ssize(described.head.labels);
  if (classifies) details.class_padding = config.is_number("pad_token_id") ? config.ids("pad_token_id")[0] : -1;
  if (!config.flag("is_causal")) {
    details.causal = false;
    for (TransformerLayerOptions& layer : details.layers)
      if (Window& window = layer.heads.window; window.left >= 0) window.right = ++window.left;
  }
  described.make = [own, details] { return std::make_unique<LanguageModel>(own, details); };
  described.names = std::move(names);
  return described;
}

}  // namespace heed::inline v0
