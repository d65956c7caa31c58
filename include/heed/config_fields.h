// The fields of the models' configurations, each described once: its name and what it may be. Checking, reading,
// writing and comparing them are visitors.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// In the order of FeedForwardKind.
inline const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names{"relu", "gelu", "gelu_tanh", "silu", "swiglu"};
  return names;
}
inline const std::vector<std::string>& norm_names() {
  static const std::vector<std::string> names{"layer_norm", "rms_norm"};
  return names;
}
inline const std::vector<std::string>& position_names() {
  static const std::vector<std::string> names{"sinusoidal", "learned", "rotary"};
  return names;
}

/// Calls, in the order of config.json and with each field of `c`, which may be const:
///   v.integer(name, value, lowest, highest), v.choice(name, value, names), v.flag(name, value),
///   v.probability(name, value) for [0, 1), and v.optional(name, value, highest) for an integer from 0, which stands
///   for its absence.
template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& v) {
  constexpr bool translates = std::is_same_v<std::remove_const_t<Config>, TransformerConfig>;
  constexpr int64_t most_pieces = 10'000'000, most_layers = 1000, most_heads = 4096;
  v.integer("vocab_size", c.vocab_size, 1, most_pieces);
  if constexpr (translates) v.optional("source_vocab_size", c.source_vocab_size, most_pieces);
  v.integer("d_model", c.d_model, 1, 65536);
  v.integer("nhead", c.nhead, 1, most_heads);
  if constexpr (translates) {
    v.integer("num_encoder_layers", c.num_encoder_layers, 1, most_layers);
    v.integer("num_decoder_layers", c.num_decoder_layers, 1, most_layers);
  } else {
    v.integer("num_kv_heads", c.num_kv_heads, 0, most_heads);
    v.integer("num_layers", c.num_layers, 1, most_layers);
  }
  v.integer("dim_feedforward", c.dim_feedforward, 1, 1'000'000);
  v.probability("dropout", c.dropout);
  v.probability("attention_dropout", c.attention_dropout);
  v.probability("activation_dropout", c.activation_dropout);
  v.choice("activation", c.activation, activation_names());
  v.choice("norm", c.norm, norm_names());
  v.flag("norm_first", c.norm_first);
  v.flag("bias", c.bias);
  v.choice("positions", c.positions, position_names());
  v.integer("max_positions", c.max_positions, translates ? 2 : 1, 10'000'000);
  v.flag("tie_embeddings", c.tie_embeddings);
  if constexpr (translates) {
    v.integer("pad_id", c.pad_id, 0, most_pieces - 1);
    v.integer("bos_id", c.bos_id, 0, most_pieces - 1);
    v.integer("eos_id", c.eos_id, 0, most_pieces - 1);
  }
}

/// Throws ShapeError that begins with `prefix` and calls fields what `name` makes of theirs: validate(), for whoever
/// knows them by other names.
void check_fields(const TransformerConfig& c, const std::string& prefix, std::string (*name)(const std::string&));
void check_fields(const LanguageModelConfig& c, const std::string& prefix, std::string (*name)(const std::string&));

}  // namespace heed::inline v0
