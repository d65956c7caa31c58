#include "models/shape.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace heed::inline v0 {

void ConfigCheck::fail(const std::string& message) const { throw ShapeError(std::string(model_) + ": " + message); }

void ConfigCheck::range(const char* field, int64_t value, int64_t low, int64_t high) const {
  if (value < low || value > high)
    fail(std::string(field) + " is " + std::to_string(value) + "; it must be in " + std::to_string(low) + ".." +
         std::to_string(high));
}

void ConfigCheck::probability(const char* field, double value) const {
  if (!(value >= 0 && value < 1)) fail(std::string(field) + " is " + std::to_string(value) + "; it must be in [0, 1)");
}

void ConfigCheck::one_of(const char* field, const std::string& value, const std::vector<std::string>& names) const {
  std::string list;
  for (const auto& name : names) {
    if (name == value) return;
    list += (list.empty() ? "" : ", ") + name;
  }
  fail(std::string(field) + " is '" + value + "'; it must be one of " + list);
}

void ConfigCheck::heads(int64_t d_model, int64_t nhead, bool rotary) const {
  if (d_model % nhead)
    fail("d_model " + std::to_string(d_model) + " is not a multiple of nhead " + std::to_string(nhead));
  if (rotary && (d_model / nhead) % 2)
    fail("rotary positions need an even head size, not " + std::to_string(d_model / nhead));
}

FeedForwardKind activation_kind(const std::string& name) {
  static const std::map<std::string, FeedForwardKind> kinds{{"relu", FeedForwardKind::relu},
                                                            {"gelu", FeedForwardKind::gelu},
                                                            {"gelu_tanh", FeedForwardKind::gelu_tanh},
                                                            {"silu", FeedForwardKind::silu},
                                                            {"swiglu", FeedForwardKind::swiglu}};
  return kinds.at(name);
}

NormKind norm_kind(const std::string& name) { return name == "layer_norm" ? NormKind::layer_norm : NormKind::rms_norm; }

static int64_t longest_of(const TokenBatch& packed) {
  const std::span<const int32_t> lengths = packed.lengths.span<int32_t>();
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

Variable TokenEmbedding::operator()(const TokenBatch& batch, int64_t first_position) const {
  const Tensor& ids = batch.ids;
  const int64_t length = batch.is_packed() ? longest_of(batch) : ids.size(1);
  if (first_position + length > max_positions)
    throw ShapeError(std::string(model) + ": " + std::to_string(first_position + length) + " tokens, the model takes " +
                     std::to_string(max_positions) + "; split the text");
  Variable x = functional::embedding(ids, table, factor);
  if (sinusoidal) {
    const Tensor rows = sinusoidal->rows(first_position, length, x.dtype());
    if (batch.is_packed())
      x = functional::add(x, functional::embedding(batch.positions.reshape(ids.shape()), Variable(rows)));
    else
      x = functional::add(x, Variable(rows.expand(x.shape()).contiguous()));
  } else if (learned.defined()) {
    Tensor positions = batch.positions;
    if (!batch.is_packed()) {
      positions = Tensor::empty({length}, DType::i32);
      std::iota(positions.data<int32_t>(), positions.data<int32_t>() + length, static_cast<int32_t>(first_position));
    }
    x = functional::add(x, functional::embedding(positions.expand(ids.shape()), learned));
  }
  return functional::dropout(x, dropout);
}

}  // namespace heed::inline v0
