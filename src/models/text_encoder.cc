#include "heed/text_encoder.h"

#include <numeric>

#include "heed/random.h"
#include "models/shape.h"

namespace heed::inline v0 {
namespace {

constexpr double kDeviation = 0.02;  // standard deviation of initial matrices

const TextEncoderConfig& checked(const TextEncoderConfig& c) {
  const auto need = [](const char* field, int64_t value) {
    if (value < 1)
      throw ShapeError(std::string("TextEncoder: ") + field + " is " + std::to_string(value) +
                       "; it must be 1 or more");
  };
  need("vocab_size", c.vocab_size), need("d_model", c.d_model), need("max_positions", c.max_positions);
  need("the number of layers", std::ssize(c.layers));
  for (const TransformerLayerOptions& layer : c.layers)
    if (layer.d_model != c.d_model)
      throw ShapeError("TextEncoder: a layer of width " + std::to_string(layer.d_model) + ", the configuration has " +
                       std::to_string(c.d_model));
  return c;
}

// The first row of each text in x (B, L, E) or (1, T, E): (B, E).
Variable first_rows(const Variable& x, const TokenBatch& text) {
  const Tensor rows = Tensor::empty({text.size()}, DType::i32);
  for (int64_t b = 0; b < text.size(); ++b)
    rows.data<int32_t>()[b] =
        text.is_packed() ? text.offsets.at<int32_t>(b) : static_cast<int32_t>(b * text.ids.size(1));
  return functional::embedding(rows, functional::reshape(x, {x.size(0) * x.size(1), x.size(2)}));
}

}  // namespace

TextEncoder::TextEncoder(const TextEncoderConfig& config)
    : config_(checked(config)), embedding_norm_(config.d_model, config.norm_epsilon) {
  const int64_t width = config.d_model;
  const auto table = [&](const char* name, int64_t rows, int64_t columns) {
    return register_parameter(name, normal({rows, columns}, 0, kDeviation));
  };
  embedding_ = table("embedding.weight", config.vocab_size, width);
  positions_ = table("positions.weight", config.max_positions + config.position_offset, width);
  if (config.types > 0) types_ = table("types.weight", config.types, width);
  register_module("embedding_norm", embedding_norm_);
  if (config.relative_buckets > 0)
    relative_bias_ = table("relative_bias.weight", config.relative_buckets, config.layers[0].nhead);
  layers_ = std::make_unique<TransformerEncoder>(config.layers, /*final_norm=*/false);
  register_module("", *layers_);
  if (!config.head) return;
  if (config.head->dense) {
    dense_ = std::make_unique<Linear>(width, width);
    register_module("head.dense", *dense_);
  }
  if (config.head->norm) {
    head_norm_ = std::make_unique<LayerNorm>(width, config.norm_epsilon);
    register_module("head.norm", *head_norm_);
  }
  if (config.head->outputs > 0) {
    output_ = std::make_unique<Linear>(width, config.head->outputs);
    register_module("head.output", *output_);
  } else {
    output_bias_ = register_parameter("head.output.bias", constant({config.vocab_size}, 0));
  }
}

Variable TextEncoder::hidden(const TokenBatch& text, const Tensor& types, AttentionRecord* record) const {
  Variable x = TokenEmbedding{.model = "TextEncoder",
                              .table = embedding_,
                              .factor = 1,
                              .max_positions = config_.max_positions,
                              .learned = positions_,
                              .sinusoidal = nullptr,
                              .dropout = 0,
                              .position_offset = config_.position_offset,
                              .unnumbered_id = config_.unnumbered_id}(text, 0);
  if (types.defined() && !types_.defined())
    throw ShapeError("TextEncoder: `types` is given, but the model has no token types");
  if (types_.defined())
    x = functional::add(
        x, functional::embedding(types.defined() ? types : Tensor::zeros(text.ids.shape(), DType::i32), types_));
  x = functional::dropout(embedding_norm_(x), training() ? config_.dropout : 0);
  MultiheadAttention::Call call = call_of(text, text, config_.causal ? Causal::top_left : Causal::none, false);
  if (relative_bias_.defined()) {
    if (text.is_packed()) throw ShapeError("TextEncoder: relative positions need a padded batch; give TokenBatch::pad");
    const int64_t length = text.ids.size(1);
    call.learned_mask = functional::relative_position_bias(relative_bias_, length, length, /*both_ways=*/true);
  }
  return (*layers_)(x, call, record);
}

Variable TextEncoder::apply_head(const Variable& states, const TokenBatch& text) const {
  if (!config_.head) throw UsageError("TextEncoder: the model has no head; use its states, hidden()");
  Variable x = config_.head->of_first_token ? first_rows(states, text) : states;
  if (dense_) x = functional::activation(*config_.head->dense, (*dense_)(x));
  if (head_norm_) x = (*head_norm_)(x);
  return output_ ? (*output_)(x) : functional::linear(x, embedding_, output_bias_);
}

}  // namespace heed::inline v0
