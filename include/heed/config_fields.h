// The fields of the models' configurations, each described once, beside its default in models.h. What checks, reads,
// writes, compares, counts or shows a configuration visits them; heed train makes its options of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/models.h"

namespace heed::inline v0 {

/// The names of a field, and its description.
struct Field {
  const char* name;    // in config.json
  const char* option;  // of a training (heed/recipe.h); null where the vocabulary decides
  const char* help;
};

/// The names of kFeedForwardKinds.
const std::vector<std::string>& activation_names();
const std::vector<std::string>& norm_names();
const std::vector<std::string>& position_names();

/// Calls, in the order of config.json and with each field of `c`, which may be const:
///   v.integer(field, value, lowest, highest), v.choice(field, value, names), v.flag(field, value),
///   v.probability(field, value) for [0, 1), and v.optional(field, value, highest) for an integer from 0, which stands
///   for its absence.
template <class Config, class Visitor>
void visit_fields(Config& c, Visitor&& v) {
  constexpr bool translates = std::is_same_v<std::remove_const_t<Config>, TransformerConfig>;
  constexpr int64_t most_pieces = 10'000'000, most_layers = 1000, most_heads = 4096;
  using F = Field;
  v.integer(F{"vocab_size", "vocab_size", "Pieces of the vocabulary, for subwords"}, c.vocab_size, 1, most_pieces);
  if constexpr (translates)
    v.optional(F{"source_vocab_size", "separate_vocabularies", "Pieces of the source's own vocabulary"},
               c.source_vocab_size, most_pieces);
  v.integer(F{"d_model", "d_model", "Width"}, c.d_model, 1, 65536);
  v.integer(F{"nhead", "heads", "Attention heads"}, c.nhead, 1, most_heads);
  if constexpr (translates) {
    v.integer(F{"num_encoder_layers", "encoder_layers", "Encoder layers"}, c.num_encoder_layers, 1, most_layers);
    v.integer(F{"num_decoder_layers", "decoder_layers", "Decoder layers"}, c.num_decoder_layers, 1, most_layers);
  } else {
    v.integer(F{"num_kv_heads", "kv_heads", "Key and value heads of a language model; 0 for as many as heads"},
              c.num_kv_heads, 0, most_heads);
    v.integer(F{"num_layers", "layers", "Layers of a language model"}, c.num_layers, 1, most_layers);
  }
  v.integer(F{"dim_feedforward", "feed_forward", "Hidden width of the feed-forward"}, c.dim_feedforward, 1, 1'000'000);
  v.probability(F{"dropout", "dropout", "Dropout of embeddings and sub-layers"}, c.dropout);
  v.probability(F{"attention_dropout", "attention_dropout", "Dropout of attention weights"}, c.attention_dropout);
  v.probability(F{"activation_dropout", "activation_dropout", "Dropout inside the feed-forward"}, c.activation_dropout);
  v.choice(F{"activation", "activation", "Activation of the feed-forward"}, c.activation, activation_names());
  v.choice(F{"norm", "norm", "Normalisation"}, c.norm, norm_names());
  v.flag(F{"norm_first", "pre_norm", "Normalise before each sub-layer, not after"}, c.norm_first);
  v.flag(F{"bias", "bias", "Biases in all layers"}, c.bias);
  v.choice(F{"positions", "positions", "How positions are told"}, c.positions, position_names());
  v.integer(F{"max_positions", "max_positions", "Longest sentence in tokens; what a language model looks back on"},
            c.max_positions, translates ? 2 : 1, 10'000'000);
  v.flag(F{"tie_embeddings", "tie_embeddings", "One matrix for all embeddings and the output"}, c.tie_embeddings);
  if constexpr (translates) {
    v.integer(F{"pad_id", nullptr, "Piece that fills up"}, c.pad_id, 0, most_pieces - 1);
    v.integer(F{"bos_id", nullptr, "Piece that begins a target"}, c.bos_id, 0, most_pieces - 1);
    v.integer(F{"eos_id", nullptr, "Piece that ends a sentence"}, c.eos_id, 0, most_pieces - 1);
  }
}

/// A field and its value as text; 0 for an optional one that is absent.
struct FieldValue {
  Field field;
  std::string value;
};
std::vector<FieldValue> field_values(const TransformerConfig& c);
std::vector<FieldValue> field_values(const LanguageModelConfig& c);

/// Throws ShapeError that begins with `prefix` and calls fields what `name` makes of theirs: validate(), for whoever
/// knows them by other names.
void check_fields(const TransformerConfig& c, const std::string& prefix,
                  const std::function<std::string(const std::string&)>& name);
void check_fields(const LanguageModelConfig& c, const std::string& prefix,
                  const std::function<std::string(const std::string&)>& name);

}  // namespace heed::inline v0
