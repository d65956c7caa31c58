#include <algorithm>

#include "heed/nn.h"

namespace heed::inline v0 {
namespace {

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o, bool self) {
  return {.embed_dim = o.d_model,
          .num_heads = o.nhead,
          .kv_heads = o.kv_heads,
          .bias = o.bias,
          .out_bias = o.bias,
          .dropout = o.attention_dropout,
          .rotary = self && o.rotary,
          .rotary_options = o.rotary_options};
}

// residual + dropout(x): the residual connection of every sub-layer (Vaswani et al. 2017, 5.4).
Variable residual(const Variable& x, const Variable& sublayer, double dropout, bool training) {
  return functional::dropout_add(sublayer, x, training ? dropout : 0);
}

// What a record asks of the layers.
class Recording {
 public:
  Recording(const RecordedPart& part, size_t layers) : layers_(part.layers) {
    for (const int64_t layer : layers_)
      if (layer < 0 || layer >= static_cast<int64_t>(layers))
        throw ShapeError("AttentionRecord: layer " + std::to_string(layer) + " is not in 0.." +
                         std::to_string(static_cast<int64_t>(layers) - 1));
    if (!part.heads.empty()) selection_.heads = list(part.heads);
    if (!part.rows.empty()) selection_.rows = list(part.rows);
  }

  /// Appends a place for this layer to each list that there is, and lets `call` fill it where the layer is recorded.
  void ask(size_t layer, std::vector<Tensor>* weights, std::vector<HeadVectors>* vectors,
           MultiheadAttention::Call* call) const {
    if (weights) weights->emplace_back();
    if (vectors) vectors->emplace_back();
    if (!layers_.empty() && std::find(layers_.begin(), layers_.end(), static_cast<int64_t>(layer)) == layers_.end())
      return;
    if (weights) {
      call->weights = &weights->back();
      call->selection = selection_;
    }
    if (vectors) call->vectors = &vectors->back();
  }

 private:
  static Tensor list(const std::vector<int64_t>& numbers) {
    return Tensor::from(std::span<const int64_t>(numbers), {std::ssize(numbers)});
  }

  std::vector<int64_t> layers_;
  WeightsSelection selection_;
};

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& o)
    : self_attn(attention_options(o, true)),
      feed_forward(o.d_model, o.dim_feedforward, o.activation, o.activation_dropout, o.bias),
      norm1(o.norm, o.d_model, o.norm_epsilon, o.norm_bias),
      norm2(o.norm, o.d_model, o.norm_epsilon, o.norm_bias),
      options_(o) {
  register_module("self_attn", self_attn);
  register_module("", feed_forward);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
}

Variable TransformerEncoderLayer::operator()(const Variable& x, const MultiheadAttention::Call& call) const {
  return block(x, [&](const Variable& y) { return self_attn(y, y, y, call); });
}

Variable TransformerEncoderLayer::step(const Variable& x, KVCache& cache) const {
  return block(x, [&](const Variable& y) { return self_attn.step(y, cache); });
}

template <class Attend>
Variable TransformerEncoderLayer::block(const Variable& x, Attend&& attend) const {
  const double p = options_.dropout;
  if (options_.norm_first) {
    const Variable h = residual(x, attend(norm1(x)), p, training());
    return residual(h, feed_forward(norm2(h)), p, training());
  }
  const Variable h = norm1(residual(x, attend(x), p, training()));
  return norm2(residual(h, feed_forward(h), p, training()));
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& o)
    : self_attn(attention_options(o, true)),
      multihead_attn(attention_options(o, false)),
      feed_forward(o.d_model, o.dim_feedforward, o.activation, o.activation_dropout, o.bias),
      norm1(o.norm, o.d_model, o.norm_epsilon, o.norm_bias),
      norm2(o.norm, o.d_model, o.norm_epsilon, o.norm_bias),
      norm3(o.norm, o.d_model, o.norm_epsilon, o.norm_bias),
      options_(o) {
  register_module("self_attn", self_attn);
  register_module("multihead_attn", multihead_attn);
  register_module("", feed_forward);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("norm3", norm3);
}

template <class SelfAttention, class CrossAttention>
Variable TransformerDecoderLayer::block(const Variable& x, SelfAttention&& self, CrossAttention&& cross) const {
  const double p = options_.dropout;
  if (options_.norm_first) {
    Variable h = residual(x, self(norm1(x)), p, training());
    h = residual(h, cross(norm2(h)), p, training());
    return residual(h, feed_forward(norm3(h)), p, training());
  }
  Variable h = norm1(residual(x, self(x), p, training()));
  h = norm2(residual(h, cross(h), p, training()));
  return norm3(residual(h, feed_forward(h), p, training()));
}

Variable TransformerDecoderLayer::operator()(const Variable& x, const Variable& memory,
                                             const MultiheadAttention::Call& self,
                                             const MultiheadAttention::Call& cross) const {
  return block(
      x, [&](const Variable& y) { return self_attn(y, y, y, self); },
      [&](const Variable& y) { return multihead_attn(y, memory, memory, cross); });
}

Variable TransformerDecoderLayer::step(const Variable& x, KVCache& self, const KVCache& memory,
                                       const MultiheadAttention::Call& cross) const {
  const int64_t rows = x.size(0), width = x.size(2), sentences = memory.keys().size(0);
  return block(
      x, [&](const Variable& y) { return self_attn.step(y, self); },
      [&](const Variable& y) {
        // The beams of a sentence are the queries of one batch entry, so its memory is read once for all of them.
        const Variable beams = functional::reshape(y, {sentences, rows / sentences, width});
        return functional::reshape(multihead_attn.attend_memory(beams, memory, cross), {rows, 1, width});
      });
}

TransformerEncoder::TransformerEncoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm) {
  for (int64_t i = 0; i < num_layers; ++i) {
    layers.push_back(std::make_unique<TransformerEncoderLayer>(options));
    register_module("layers." + std::to_string(i), *layers.back());
  }
  if (final_norm) {
    norm = std::make_unique<Norm>(options.norm, options.d_model, options.norm_epsilon, options.norm_bias);
    register_module("norm", *norm);
  }
}

Variable TransformerEncoder::operator()(Variable x, const MultiheadAttention::Call& call, std::vector<Tensor>* weights,
                                        std::vector<HeadVectors>* vectors, const RecordedPart& part) const {
  const Recording recording(part, layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    MultiheadAttention::Call own = call;
    recording.ask(l, weights, vectors, &own);
    x = (*layers[l])(x, own);
  }
  return norm ? (*norm)(x) : x;
}

Variable TransformerEncoder::step(Variable x, std::vector<KVCache>& caches) const {
  for (size_t l = 0; l < layers.size(); ++l) x = layers[l]->step(x, caches.at(l));
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm) {
  for (int64_t i = 0; i < num_layers; ++i) {
    layers.push_back(std::make_unique<TransformerDecoderLayer>(options));
    register_module("layers." + std::to_string(i), *layers.back());
  }
  if (final_norm) {
    norm = std::make_unique<Norm>(options.norm, options.d_model, options.norm_epsilon, options.norm_bias);
    register_module("norm", *norm);
  }
}

Variable TransformerDecoder::operator()(Variable x, const Variable& memory, const MultiheadAttention::Call& self,
                                        const MultiheadAttention::Call& cross, AttentionRecord* record) const {
  const Recording recording(record ? record->part : RecordedPart(), layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    MultiheadAttention::Call own = self, other = cross;
    if (record) {
      recording.ask(l, &record->decoder, record->want_vectors ? &record->decoder_vectors : nullptr, &own);
      recording.ask(l, &record->cross, record->want_vectors ? &record->cross_vectors : nullptr, &other);
    }
    x = (*layers[l])(x, memory, own, other);
  }
  return norm ? (*norm)(x) : x;
}

}  // namespace heed::inline v0
