#include "pretrained/bart_layers.h"

namespace heed::inline v0 {

TransformerLayerOptions bart_layer(const Keys& config, const std::string& stack, bool norm_first) {
  return {.d_model = size_of(config, "d_model"),
          .nhead = size_of(config, stack + "_attention_heads"),
          .dim_feedforward = size_of(config, stack + "_ffn_dim"),
          .dropout = config.number("dropout", 0, 0.99),
          .attention_dropout = config.number("attention_dropout", 0, 0.99),
          .activation_dropout = config.number("activation_dropout", 0, 0.99),
          .activation = {activation_of(config, "activation_function")},
          .norm_first = norm_first};
}

void settle_tables(const std::vector<Tie>& ties, const TensorSource& stored, Names& names, TransformerConfig& own,
                   TransformerDetails& details) {
  settle_ties(names, ties, stored);
  const auto origin = [&](const std::string& table) {
    for (const Tie& tie : names.ties)
      if (tie.target == table) return tie.source;
    return table;
  };
  const std::string encoder = origin(kEncoderTable), decoder = origin(kDecoderTable), head = origin(kHeadTable);
  const bool has_decoder = own.num_decoder_layers > 0;
  details.has_head =
      details.has_head && has_decoder && (details.classes > 0 || find_stored(names, kHeadTable, stored.names));
  details.one_embedding = encoder == decoder || !has_decoder;
  if (!details.one_embedding && own.source_vocab_size == 0) own.source_vocab_size = own.vocab_size;
  own.tie_embeddings = details.classes > 0 || !details.has_head || head == decoder;
  names.rules.insert(names.rules.end(), {{"embedding.weight", {encoder}},
                                         {"source_embedding.weight", {kEncoderTable}},
                                         {"target_embedding.weight", {kDecoderTable}},
                                         {"output.weight", {kHeadTable}}});
  if (encoder != kSharedTable && decoder != kSharedTable && head != kSharedTable)
    names.unused.emplace_back(kSharedTable);
}

void add_bart_layers(std::vector<NameRule>& rules, bool key_bias) {
  for (const std::string kind : {"weight", "bias"}) {
    const auto rule = [&](const std::string& to, const std::string& from) {
      rules.push_back({to + "." + kind, {from + "." + kind}});
    };
    const auto attention = [&](const std::string& to, const std::string& from) {
      const std::string keys = kind == "weight" || key_bias ? from + ".k_proj." + kind : "";
      rules.push_back({to + ".in_proj_" + kind, {from + ".q_proj." + kind, keys, from + ".v_proj." + kind}});
      rule(to + ".out_proj", from + ".out_proj");
    };
    for (const std::string stack : {"encoder", "decoder"}) {
      const std::string layer = stack + ".layers.{}.";
      const bool crossed = stack == "decoder";
      attention(layer + "self_attn", layer + "self_attn");
      if (crossed) attention(layer + "multihead_attn", layer + "encoder_attn");
      rule(layer + "norm1", layer + "self_attn_layer_norm");
      if (crossed) rule(layer + "norm2", layer + "encoder_attn_layer_norm");
      rule(layer + (crossed ? "norm3" : "norm2"), layer + "final_layer_norm");
      rule(layer + "linear1", layer + "fc1");
      rule(layer + "linear2", layer + "fc2");
      rule(stack + ".norm", stack + ".layer_norm");
    }
    rule("source_norm", "encoder.layernorm_embedding");
    rule("target_norm", "decoder.layernorm_embedding");
  }
}

}  // namespace heed::inline v0
