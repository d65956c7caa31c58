// BERT (Devlin et al. 2019), DistilBERT, RoBERTa, XLM-RoBERTa and MPNet, with their heads.
#include "heed/text_encoder.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

// Differences between these models.
struct Kin {
  std::string type;
  bool distil() const { return type == "distilbert"; }
  bool roberta() const { return type == "roberta" || type == "xlm-roberta"; }
  bool mpnet() const { return type == "mpnet"; }
  const char* key(const char* usual, const char* of_distil) const { return distil() ? of_distil : usual; }
};

// A head, the names of its parts in the file, and its task.
struct NamedHead {
  EncoderHead head;
  std::string dense, norm, output;
  PretrainedHead use{};
};

NamedHead masked_words(const Kin& kin, Activation activation) {
  const EncoderHead head{.dense = kin.type == "bert" || kin.distil() ? activation : Activation::gelu, .norm = true};
  const PretrainedHead use{.task = HeadTask::masked_words};
  if (kin.distil()) return {head, "vocab_transform", "vocab_layer_norm", "vocab_projector", use};
  if (kin.type == "bert")
    return {head, "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
            use};
  return {head, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", use};
}

NamedHead classifier(const Kin& kin, int64_t labels) {
  EncoderHead head{.of_first_token = true, .dense = Activation::tanh, .outputs = labels};
  if (kin.type == "bert") return {head, "pooler.dense", "", "classifier"};
  if (!kin.distil()) return {head, "classifier.dense", "", "classifier.out_proj"};
  head.dense = Activation::relu;
  return {head, "pre_classifier", "", "classifier"};
}

// Whether the class that wrote the file has no head.
bool is_bare(const std::string& name) {
  return name.empty() || (name.ends_with("Model") && !name.ends_with("LMHeadModel"));
}

// The head of the class that wrote the file; none if heed does not have it. Files of a class without a head may still
// hold the head for masked words, which transformers' AutoModelForMaskedLM then uses.
std::optional<NamedHead> head_of(const Keys& config, const Kin& kin, Activation activation) {
  const std::string name = class_of(config);
  if (is_bare(name) || name.ends_with("ForMaskedLM") || name.ends_with("ForPreTraining") ||
      name.ends_with("LMHeadModel"))
    return masked_words(kin, activation);
  if (name.ends_with("ForQuestionAnswering"))
    return NamedHead{{.outputs = 2}, "", "", "qa_outputs", {.task = HeadTask::answers}};
  if (name.ends_with("ForTokenClassification")) {
    const std::vector<std::string> labels = class_labels(config);
    return NamedHead{
        {.outputs = std::ssize(labels)}, "", "", "classifier", {.task = HeadTask::token_classes, .labels = labels}};
  }
  if (name.ends_with("ForSequenceClassification")) {
    const PretrainedHead use = text_classes(config);
    NamedHead named = classifier(kin, std::ssize(use.labels));
    named.use = use;
    return named;
  }
  return {};
}

void add_layers(const Kin& kin, std::vector<NameRule>& rules) {
  const std::string own = "layers.{}.";
  const std::string theirs = kin.distil() ? "transformer.layer.{}." : "encoder.layer.{}.";
  for (const std::string kind : {"weight", "bias"}) {
    const auto rule = [&](const std::string& to, const std::string& from) {
      rules.push_back({own + to + "." + kind, {theirs + from + "." + kind}});
    };
    const auto joined = [&](const std::string& q, const std::string& k, const std::string& v) {
      rules.push_back({own + "self_attn.in_proj_" + kind,
                       {theirs + q + "." + kind, theirs + k + "." + kind, theirs + v + "." + kind}});
    };
    if (kin.distil()) {
      joined("attention.q_lin", "attention.k_lin", "attention.v_lin");
      rule("self_attn.out_proj", "attention.out_lin");
      rule("norm1", "sa_layer_norm");
      rule("linear1", "ffn.lin1");
      rule("linear2", "ffn.lin2");
      rule("norm2", "output_layer_norm");
      continue;
    }
    if (kin.mpnet()) {
      joined("attention.attn.q", "attention.attn.k", "attention.attn.v");
      rule("self_attn.out_proj", "attention.attn.o");
      rule("norm1", "attention.LayerNorm");
    } else {
      joined("attention.self.query", "attention.self.key", "attention.self.value");
      rule("self_attn.out_proj", "attention.output.dense");
      rule("norm1", "attention.output.LayerNorm");
    }
    rule("linear1", "intermediate.dense");
    rule("linear2", "output.dense");
    rule("norm2", "output.LayerNorm");
  }
}

std::vector<NameRule> rules_of(const NamedHead& named) {
  std::vector<NameRule> rules;
  for (const std::string kind : {".weight", ".bias"}) {
    if (!named.dense.empty()) rules.push_back({"head.dense" + kind, {named.dense + kind}});
    if (!named.norm.empty()) rules.push_back({"head.norm" + kind, {named.norm + kind}});
    if (named.head.outputs > 0 || kind == ".bias") rules.push_back({"head.output" + kind, {named.output + kind}});
  }
  return rules;
}

// Beginnings of the names of all heads that transformers has for the family.
std::vector<std::string> heads_of(const Kin& kin) {
  std::vector<std::string> heads{"classifier.weight", "classifier.bias", "qa_outputs."};
  const auto add = [&](std::initializer_list<const char*> more) {
    heads.insert(heads.end(), more.begin(), more.end());
  };
  if (kin.type == "bert")
    add({"cls.predictions.transform.dense.", "cls.predictions.transform.LayerNorm.", "cls.predictions.decoder.",
         "cls.predictions.bias", "cls.seq_relationship."});
  else if (kin.distil())
    add({"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "pre_classifier."});
  else
    add({"lm_head.dense.", "lm_head.layer_norm.", "lm_head.decoder.", "lm_head.bias", "classifier.dense.",
         "classifier.out_proj."});
  return heads;
}

KeyTable keys(const std::string& type) {
  const KeyTable common =
      common_keys().with({applied("vocab_size", 30522), applied("max_position_embeddings", 512),
                          applied("tie_word_embeddings", true), harmless("embedding_size", "it only turns off a check"),
                          harmless("classifier_dropout", "heed trains heads without dropout"),
                          harmless("qa_dropout", "heed trains heads without dropout"),
                          harmless("seq_classif_dropout", "heed trains heads without dropout")});
  if (type == "distilbert")
    return common.with({applied("n_layers", 6), applied("n_heads", 12), applied("dim", 768),
                        applied("hidden_dim", 3072), applied("dropout", 0.1), applied("attention_dropout", 0.1),
                        applied("activation", "gelu"), alias("hidden_size", "dim"),
                        alias("num_attention_heads", "n_heads"), alias("num_hidden_layers", "n_layers"),
                        harmless("sinusoidal_pos_embds", "the file has the table of positions")});
  const KeyTable usual = common.with({applied("hidden_size", 768), applied("num_hidden_layers", 12),
                                      applied("num_attention_heads", 12), applied("intermediate_size", 3072),
                                      applied("hidden_act", "gelu"), applied("hidden_dropout_prob", 0.1),
                                      applied("attention_probs_dropout_prob", 0.1), applied("layer_norm_eps", 1e-12)});
  if (type == "mpnet")
    return usual.with({applied("vocab_size", 30527), applied("pad_token_id", 1), applied("eos_token_id", 2),
                       // transformers makes a table of this many rows, but always computes with 32 buckets.
                       only("relative_attention_num_buckets", 32)});
  const KeyTable decoding =
      usual.with({applied("type_vocab_size", 2), applied("is_decoder", false), only("add_cross_attention", false)});
  if (type == "bert") return decoding;
  return decoding.with({applied("pad_token_id", 1), applied("eos_token_id", 2),
                        applied("vocab_size", type == "roberta" ? 50265 : 30522)});
}

Names names_of(const Kin& kin, const std::optional<NamedHead>& named) {
  Names names{.rules = {{"embedding.weight", {"embeddings.word_embeddings.weight"}},
                        {"positions.weight", {"embeddings.position_embeddings.weight"}},
                        {"types.weight", {"embeddings.token_type_embeddings.weight"}},
                        {"embedding_norm.weight", {"embeddings.LayerNorm.weight"}},
                        {"embedding_norm.bias", {"embeddings.LayerNorm.bias"}},
                        {"relative_bias.weight", {"encoder.relative_attention_bias.weight"}}},
              .prefixes = {(kin.roberta() ? "roberta" : kin.type) + ".", ""},
              .heads = heads_of(kin),
              .old_endings = {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}},
              .unused = {"*position_ids", "*token_type_ids"}};
  add_layers(kin, names.rules);
  if (!named || named->dense != "pooler.dense") names.unused.emplace_back("pooler.*");
  return names;
}

// transformers ties the output matrix to the embedding, and its bias to an older name.
void settle_head(const Kin& kin, const Keys& config, const TensorSource& stored, int64_t words, NamedHead& named,
                 Names& names) {
  std::vector<Tie> ties{{named.output + ".weight", "embeddings.word_embeddings.weight"}};
  const std::string older_bias = kin.type == "bert" ? "cls.predictions.bias" : "lm_head.bias";
  if (!kin.distil()) ties.push_back({named.output + ".bias", older_bias});
  settle_ties(names, config.flag("tie_word_embeddings") ? ties : std::vector<Tie>(), stored);
  if (!is_tied(names, named.output + ".weight")) named.head.outputs = words;
}

Described describe(const Keys& config, const TensorSource& stored) {
  const Kin kin{config.text("model_type")};
  const Activation activation = activation_of(config, kin.key("hidden_act", "activation"));
  // Positions start after the padding token's row, which is always row 1 in MPNet.
  const int64_t before = kin.mpnet() ? 2 : kin.roberta() ? config.integer("pad_token_id", 0, INT32_MAX - 1) + 1 : 0;
  const int64_t width = size_of(config, kin.key("hidden_size", "dim"));
  TextEncoderConfig own{.vocab_size = size_of(config, "vocab_size"),
                        .d_model = width,
                        .position_offset = before,
                        .unnumbered_id = static_cast<int32_t>(before - 1),
                        .types = kin.distil() || kin.mpnet() ? 0 : config.integer("type_vocab_size", 1, 1000),
                        .norm_epsilon = kin.distil() ? 1e-12 : config.number("layer_norm_eps", 0, 1),
                        .dropout = config.number(kin.key("hidden_dropout_prob", "dropout"), 0, 0.99),
                        .causal = config.flag("is_decoder")};
  const int64_t rows = size_of(config, "max_position_embeddings");
  if (rows <= own.position_offset) config.fail("max_position_embeddings", "it leaves no position");
  own.max_positions = rows - own.position_offset;
  if (kin.mpnet()) own.relative_buckets = 32;
  const TransformerLayerOptions layer{
      .d_model = width,
      .nhead = size_of(config, kin.key("num_attention_heads", "n_heads")),
      .dim_feedforward = size_of(config, kin.key("intermediate_size", "hidden_dim")),
      .dropout = own.dropout,
      .attention_dropout = config.number(kin.key("attention_probs_dropout_prob", "attention_dropout"), 0, 0.99),
      .activation = {activation},
      .norm_epsilon = own.norm_epsilon};
  own.layers.assign(static_cast<size_t>(layers_of(config, kin.key("num_hidden_layers", "n_layers"))), layer);
  PretrainedHead head;
  const auto names_with = [&](const std::optional<NamedHead>& named) {
    Names names = names_of(kin, named);
    names.layers = std::ssize(own.layers);
    return names;
  };
  std::optional<NamedHead> named = head_of(config, kin, activation);
  if (!named) head.missing = head_unknown(config);
  Names names = names_with(named);
  if (named) {
    if (named->use.task == HeadTask::masked_words) settle_head(kin, config, stored, own.vocab_size, *named, names);
    const std::vector<NameRule> rules = rules_of(*named);
    if (const auto lacks = missing_of_head(names, rules, stored)) {
      if (!is_bare(class_of(config))) head.missing = head_without(config, *lacks);
      names = names_with({});
    } else {
      names.rules.insert(names.rules.end(), rules.begin(), rules.end());
      own.head = named->head;
      head = named->use;
    }
  }
  return {
      .make = [own] { return std::make_unique<TextEncoder>(own); }, .names = std::move(names), .head = std::move(head)};
}

}  // namespace

const Family kBert{
    .model_types = {"bert", "distilbert", "roberta", "xlm-roberta", "mpnet"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
