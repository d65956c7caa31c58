#include <cmath>
#include <map>
#include <numeric>

#include "heed/models.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

const std::map<std::string, FeedForwardKind> kActivations{{"relu", FeedForwardKind::relu},
                                                          {"gelu", FeedForwardKind::gelu},
                                                          {"gelu_tanh", FeedForwardKind::gelu_tanh},
                                                          {"silu", FeedForwardKind::silu},
                                                          {"swiglu", FeedForwardKind::swiglu}};
const std::map<std::string, NormKind> kNorms{{"layer_norm", NormKind::layer_norm}, {"rms_norm", NormKind::rms_norm}};

TransformerLayerOptions layer_options(const TransformerConfig& c) {
  return {.d_model = c.d_model,
          .nhead = c.nhead,
          .dim_feedforward = c.dim_feedforward,
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout,
          .activation = kActivations.at(c.activation),
          .norm = kNorms.at(c.norm),
          .norm_first = c.norm_first,
          .bias = c.bias,
          .rotary = c.positions == "rotary"};
}

}  // namespace

void validate(const TransformerConfig& c) {
  const auto range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      throw ShapeError(std::string("Transformer: ") + field + " is " + std::to_string(value) + "; it must be in " +
                       std::to_string(low) + ".." + std::to_string(high));
  };
  const auto probability = [](const char* field, double value) {
    if (!(value >= 0 && value < 1))
      throw ShapeError(std::string("Transformer: ") + field + " is " + std::to_string(value) +
                       "; it must be in [0, 1)");
  };
  const auto one_of = [](const char* field, const std::string& value, const std::vector<std::string>& names) {
    std::string list;
    for (const auto& name : names) {
      if (name == value) return;
      list += (list.empty() ? "" : ", ") + name;
    }
    throw ShapeError(std::string("Transformer: ") + field + " is '" + value + "'; it must be one of " + list);
  };
  range("vocab_size", c.vocab_size, 1, 10'000'000);
  range("d_model", c.d_model, 1, 65536);
  range("nhead", c.nhead, 1, 4096);
  range("num_encoder_layers", c.num_encoder_layers, 0, 1000);
  range("num_decoder_layers", c.num_decoder_layers, 1, 1000);
  range("dim_feedforward", c.dim_feedforward, 1, 1'000'000);
  range("max_positions", c.max_positions, 1, 10'000'000);
  if (c.d_model % c.nhead)
    throw ShapeError("Transformer: d_model " + std::to_string(c.d_model) + " is not a multiple of nhead " +
                     std::to_string(c.nhead));
  probability("dropout", c.dropout);
  probability("attention_dropout", c.attention_dropout);
  probability("activation_dropout", c.activation_dropout);
  one_of("activation", c.activation, {"relu", "gelu", "gelu_tanh", "silu", "swiglu"});
  one_of("norm", c.norm, {"layer_norm", "rms_norm"});
  one_of("positions", c.positions, {"sinusoidal", "learned", "rotary"});
  if (c.positions == "rotary" && (c.d_model / c.nhead) % 2)
    throw ShapeError("Transformer: rotary positions need an even head size, not " +
                     std::to_string(c.d_model / c.nhead));
  range("pad_id", c.pad_id, 0, c.vocab_size - 1);
  range("bos_id", c.bos_id, 0, c.vocab_size - 1);
  range("eos_id", c.eos_id, 0, c.vocab_size - 1);
}

int64_t parameter_count(const TransformerConfig& c) {
  const int64_t e = c.d_model, f = c.dim_feedforward, b = c.bias ? 1 : 0;
  const int64_t rows = c.activation == "swiglu" ? 2 * f : f;  // of linear1
  const int64_t attention = 4 * (e * e + b * e);
  const int64_t feed_forward = rows * e + b * rows + e * f + b * e;
  const int64_t norm = c.norm == "layer_norm" ? 2 * e : e;
  const int64_t final_norm = c.norm_first ? norm : 0;
  const int64_t tables = (c.tie_embeddings ? 1 : 3) * c.vocab_size * e;
  const int64_t positions = c.positions == "learned" ? 2 * c.max_positions * e : 0;
  return tables + positions + c.num_encoder_layers * (attention + feed_forward + 2 * norm) +
         c.num_decoder_layers * (2 * attention + feed_forward + 3 * norm) + 2 * final_norm;
}

TokenBatch TokenBatch::pad(const std::vector<std::vector<int32_t>>& sentences, int32_t pad_id) {
  const auto batch = static_cast<int64_t>(sentences.size());
  size_t longest = 0;
  for (const auto& s : sentences) longest = std::max(longest, s.size());
  TokenBatch result{Tensor::full({batch, static_cast<int64_t>(longest)}, pad_id, DType::i32),
                    Tensor::empty({batch}, DType::i32)};
  for (size_t b = 0; b < sentences.size(); ++b) {
    std::copy(sentences[b].begin(), sentences[b].end(), result.ids.data<int32_t>() + b * longest);
    result.lengths.data<int32_t>()[b] = static_cast<int32_t>(sentences[b].size());
  }
  return result;
}

Transformer::Transformer(const TransformerConfig& config) : config_(config), sinusoidal_(config.d_model) {
  validate(config);
  const double deviation = 1 / std::sqrt(static_cast<double>(config.d_model));
  const Dims table{config.vocab_size, config.d_model};
  const bool tied = config.tie_embeddings;
  source_ = register_parameter(tied ? "embedding.weight" : "source_embedding.weight", normal(table, 0, deviation));
  if (!tied) {
    target_ = register_parameter("target_embedding.weight", normal(table, 0, deviation));
    output_ = register_parameter("output.weight", normal(table, 0, deviation));
  }
  if (config.positions == "learned") {
    const Dims rows{config.max_positions, config.d_model};
    source_positions_ = register_parameter("source_positions.weight", normal(rows, 0, deviation));
    target_positions_ = register_parameter("target_positions.weight", normal(rows, 0, deviation));
  }
  const TransformerLayerOptions options = layer_options(config);
  encoder_ = std::make_unique<TransformerEncoder>(options, config.num_encoder_layers, config.norm_first);
  decoder_ = std::make_unique<TransformerDecoder>(options, config.num_decoder_layers, config.norm_first);
  register_module("encoder", *encoder_);
  register_module("decoder", *decoder_);
}

Variable Transformer::embed(const Tensor& ids, const Variable& table, const Variable& learned,
                            int64_t first_position) const {
  const int64_t batch = ids.size(0), length = ids.size(1);
  if (first_position + length > config_.max_positions)
    throw ShapeError("Transformer: " + std::to_string(first_position + length) + " tokens, the model takes " +
                     std::to_string(config_.max_positions) + "; split the text");
  // Vaswani et al. 2017, 3.4: embeddings times sqrt(d_model).
  Variable x = functional::embedding(ids, table, std::sqrt(static_cast<double>(config_.d_model)));
  if (config_.positions == "sinusoidal") {
    const Tensor rows = sinusoidal_.rows(first_position, length, x.dtype());
    x = functional::add(x, Variable(rows.expand(x.shape()).contiguous()));
  } else if (learned.defined()) {
    const Tensor positions = Tensor::empty({length}, DType::i32);
    std::iota(positions.data<int32_t>(), positions.data<int32_t>() + length, static_cast<int32_t>(first_position));
    x = functional::add(x, functional::embedding(positions.expand({batch, length}), learned));
  }
  return training() ? functional::dropout(x, config_.dropout) : x;
}

Variable Transformer::encode(const TokenBatch& source, AttentionRecord* record) const {
  const Variable x = embed(source.ids, source_, source_positions_, 0);
  return (*encoder_)(x, {.key_lengths = source.lengths}, record ? &record->encoder : nullptr);
}

Variable Transformer::decode(const TokenBatch& target, const Variable& memory, const Tensor& source_lengths,
                             AttentionRecord* record) const {
  const Variable x = embed(target.ids, target_embedding(), target_positions_, 0);
  return (*decoder_)(x, memory, {.causal = Causal::top_left}, {.key_lengths = source_lengths}, record);
}

Variable Transformer::loss(const TokenBatch& source, const std::vector<std::vector<int32_t>>& target,
                           const functional::CrossEntropyOptions& options, functional::LossParts* parts) const {
  std::vector<std::vector<int32_t>> inputs, labels;
  for (const auto& sentence : target) {
    inputs.emplace_back(1, config_.bos_id).insert(inputs.back().end(), sentence.begin(), sentence.end());
    labels.push_back(sentence);
    labels.back().push_back(config_.eos_id);
  }
  const Variable memory = encode(source);
  const Variable hidden = decode(TokenBatch::pad(inputs, config_.pad_id), memory, source.lengths);
  const Tensor padded_labels = TokenBatch::pad(labels, options.ignore_index).ids;
  return functional::linear_cross_entropy(hidden, output_weight(), {}, padded_labels, options, parts);
}

Variable Transformer::logits(const TokenBatch& source, const TokenBatch& target) const {
  return functional::linear(decode(target, encode(source), source.lengths), output_weight());
}

}  // namespace heed::inline v0
