#include <cmath>
#include <numeric>
#include <utility>

#include "heed/models.h"
#include "heed/random.h"
#include "models/shape.h"

namespace heed::inline v0 {

int64_t parameter_count(const TransformerConfig& c) {
  const ShapesOnly shapes_only;
  return Transformer(c).parameter_count();
}

TokenBatch::TokenBatch(Tensor ids_, Tensor lengths_, Tensor offsets_, Tensor positions_)
    : ids(std::move(ids_)),
      lengths(std::move(lengths_)),
      offsets(std::move(offsets_)),
      positions(std::move(positions_)) {}

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

TokenBatch TokenBatch::pack(const std::vector<std::vector<int32_t>>& sentences) {
  const auto batch = static_cast<int64_t>(sentences.size());
  int64_t tokens = 0;
  for (const auto& s : sentences) tokens += std::ssize(s);
  TokenBatch result{Tensor::empty({1, tokens}, DType::i32), Tensor::empty({batch}, DType::i32),
                    Tensor::empty({batch + 1}, DType::i32), Tensor::empty({tokens}, DType::i32)};
  int32_t* const offsets = result.offsets.data<int32_t>();
  offsets[0] = 0;
  for (size_t b = 0; b < sentences.size(); ++b) {
    const auto length = static_cast<int32_t>(sentences[b].size());
    std::copy(sentences[b].begin(), sentences[b].end(), result.ids.data<int32_t>() + offsets[b]);
    std::iota(result.positions.data<int32_t>() + offsets[b], result.positions.data<int32_t>() + offsets[b] + length, 0);
    result.lengths.data<int32_t>()[b] = length;
    offsets[b + 1] = offsets[b] + length;
  }
  return result;
}

std::vector<std::vector<int32_t>> TokenBatch::sentences() const {
  std::vector<std::vector<int32_t>> all;
  if (size() == 0) return all;
  const Tensor dense = ids.contiguous();
  for (int64_t b = 0; b < size(); ++b) {
    const int64_t begin = is_packed() ? offsets.data<int32_t>()[b] : b * dense.size(1);
    const int32_t* const first = dense.data<int32_t>() + begin;
    all.emplace_back(first, first + lengths.data<int32_t>()[b]);
  }
  return all;
}

Transformer::Transformer(const TransformerConfig& config)
    : config_(validated(config)), sinusoidal_(config.d_model, held_positions(config)) {
  const double deviation = 1 / std::sqrt(static_cast<double>(config.d_model));
  const auto table = [&](const char* name, int64_t pieces) {
    return register_parameter(name, normal({pieces, config.d_model}, 0, deviation));
  };
  const bool shared = config.tie_embeddings && config.source_vocab_size == 0;
  source_ = table(shared ? "embedding.weight" : "source_embedding.weight", config.source_pieces());
  if (!shared) target_ = table("target_embedding.weight", config.vocab_size);
  if (!config.tie_embeddings) output_ = table("output.weight", config.vocab_size);
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

MultiheadAttention::Call call_of(const TokenBatch& queries, const TokenBatch& keys, Causal causal) {
  if (keys.is_packed())
    return {.causal = causal, .tokens = PackedTokens{queries.offsets, keys.offsets}, .positions = queries.positions};
  // The end of a sentence is hidden by causality.
  if (causal != Causal::none) return {.causal = causal};
  return {.tokens = PaddedKeys{keys.lengths}};
}

Variable Transformer::embed(const TokenBatch& batch, const Variable& table, const Variable& learned,
                            int64_t first_position) const {
  // Vaswani et al. 2017, 3.4: embeddings times sqrt(d_model).
  return TokenEmbedding{.model = "Transformer",
                        .table = table,
                        .factor = std::sqrt(static_cast<double>(config_.d_model)),
                        .max_positions = config_.max_positions,
                        .learned = learned,
                        .sinusoidal = config_.positions == "sinusoidal" ? &sinusoidal_ : nullptr,
                        .dropout = training() ? config_.dropout : 0}(batch, first_position);
}

Variable Transformer::encode(const TokenBatch& source, AttentionRecord* record) const {
  const Variable x = embed(source, source_, source_positions_, 0);
  return (*encoder_)(x, call_of(source, source, Causal::none), record);
}

Variable Transformer::decode(const TokenBatch& target, const Variable& memory, const TokenBatch& source,
                             AttentionRecord* record) const {
  if (source.is_packed() != target.is_packed())
    throw ShapeError("Transformer: one of source and target is packed, the other padded; pack both or pad both");
  const Variable x = embed(target, target_embedding(), target_positions_, 0);
  return (*decoder_)(x, memory, call_of(target, target, Causal::top_left), call_of(target, source, Causal::none),
                     record);
}

Variable Transformer::loss(const TokenBatch& source, const TokenBatch& target,
                           const functional::CrossEntropyOptions& options, functional::LossParts* parts) const {
  if (source.size() != target.size())
    throw ShapeError("Transformer: " + std::to_string(source.size()) + " sources and " + std::to_string(target.size()) +
                     " targets; each needs the other");
  const std::vector<std::vector<int32_t>> read = source.sentences(), written = target.sentences();
  std::vector<std::vector<int32_t>> sources, inputs, labels;
  for (int pass = 0; pass < (options.r_drop > 0 ? 2 : 1); ++pass) {
    for (const auto& sentence : read) {
      sources.push_back(sentence);
      sources.back().push_back(config_.eos_id);
    }
    for (const auto& sentence : written) {
      inputs.emplace_back(1, config_.bos_id).insert(inputs.back().end(), sentence.begin(), sentence.end());
      labels.push_back(sentence);
      labels.back().push_back(config_.eos_id);
    }
  }
  const auto batch_of = [&](const std::vector<std::vector<int32_t>>& sentences, int32_t pad_id) {
    return source.is_packed() ? TokenBatch::pack(sentences) : TokenBatch::pad(sentences, pad_id);
  };
  const TokenBatch ended = batch_of(sources, config_.pad_id);
  const Variable hidden = decode(batch_of(inputs, config_.pad_id), encode(ended), ended);
  const Tensor label_ids = batch_of(labels, options.ignore_index).ids;
  return functional::linear_cross_entropy(hidden, output_weight(), {}, label_ids, options, parts);
}

Variable Transformer::logits(const TokenBatch& source, const TokenBatch& target) const {
  return functional::linear(decode(target, encode(source), source), output_weight());
}

}  // namespace heed::inline v0
