#include <algorithm>
#include <optional>
#include <utility>

#include "heed/nn.h"

namespace heed::inline v0 {
namespace {

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o, bool self) {
  return {.embed_dim = o.d_model,
          .num_heads = o.nhead,
          .kv_heads = o.kv_heads,
          .head_dim = o.head_dim,
          .bias = o.qkv_bias.value_or(o.bias),
          .out_bias = o.out_bias.value_or(o.bias),
          .dropout = o.attention_dropout,
          .scale = o.scale,
          .rotary = self && o.rotary,
          .rotary_options = o.rotary_options,
          .heads = self ? o.heads : HeadOptions()};
}

// residual + dropout(x): the residual connection of every sub-layer (Vaswani et al. 2017, 5.4).
Variable residual(const Variable& x, const Variable& sublayer, double dropout, bool training,
                  const functional::SplitRows* rows = nullptr) {
  return functional::dropout_add(sublayer, x, training ? dropout : 0, rows);
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

  bool records(size_t layer) const {
    return layers_.empty() || std::find(layers_.begin(), layers_.end(), static_cast<int64_t>(layer)) != layers_.end();
  }
  HeadRecord wanted(bool vectors) const { return {.want_vectors = vectors, .selection = selection_}; }

 private:
  static Tensor list(const std::vector<int64_t>& numbers) {
    return Tensor::from(std::span<const int64_t>(numbers), {std::ssize(numbers)});
  }

  std::vector<int64_t> layers_;
  WeightsSelection selection_;
};

// One attention of a stack, layer after layer: what it keeps is appended to lists of the record, where there is one.
class RecordingOf {
 public:
  using Weights = std::vector<Tensor> AttentionRecord::*;
  using Vectors = std::vector<HeadVectors> AttentionRecord::*;
  RecordingOf(AttentionRecord* record, size_t layers, Weights weights, Vectors vectors) {
    if (!record) return;
    recording_.emplace(record->part, layers);
    want_vectors_ = record->want_vectors;
    weights_ = &(record->*weights);
    vectors_ = &(record->*vectors);
  }
  /// Where the attention of layer `layer` is to leave what is wanted; null: nothing is.
  HeadRecord* begin(size_t layer) {
    kept_ = recording_ ? recording_->wanted(want_vectors_) : HeadRecord();
    return recording_ && recording_->records(layer) ? &kept_ : nullptr;
  }
  void end() {
    if (!recording_) return;
    weights_->push_back(std::move(kept_.weights));
    if (want_vectors_) vectors_->push_back(std::move(kept_.vectors));
  }

 private:
  std::optional<Recording> recording_;
  bool want_vectors_ = false;
  HeadRecord kept_;
  std::vector<Tensor>* weights_ = nullptr;
  std::vector<HeadVectors>* vectors_ = nullptr;
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
  if (!o.norm_after) return;
  if (!o.norm_first) throw ShapeError("TransformerEncoderLayer: norm_after goes with norm_first; set both");
  norm1_after = std::make_unique<Norm>(o.norm, o.d_model, o.norm_epsilon, o.norm_bias);
  norm2_after = std::make_unique<Norm>(o.norm, o.d_model, o.norm_epsilon, o.norm_bias);
  register_module("norm1_after", *norm1_after);
  register_module("norm2_after", *norm2_after);
}

Variable TransformerEncoderLayer::operator()(const Variable& x, const MultiheadAttention::Call& call,
                                             HeadRecord* record) const {
  return block(x, call.split(), [&](const Variable& y) { return self_attn(y, y, y, call, record); });
}

Variable TransformerEncoderLayer::step(const Variable& x, KVCache& cache) const {
  return block(x, nullptr, [&](const Variable& y) { return self_attn.step(y, cache); });
}

Variable TransformerEncoderLayer::step(const Variable& x, std::span<KVCache* const> caches) const {
  return block(x, nullptr, [&](const Variable& y) { return self_attn.step(y, caches); });
}

template <class Attend>
Variable TransformerEncoderLayer::block(const Variable& x, const functional::SplitRows* rows, Attend&& attend) const {
  const double p = options_.dropout;
  const auto after = [](const std::unique_ptr<Norm>& norm, const Variable& y) { return norm ? (*norm)(y) : y; };
  if (options_.norm_first) {
    const Variable h = residual(x, after(norm1_after, attend(norm1(x))), p, training(), rows);
    return residual(h, after(norm2_after, feed_forward(norm2(h), rows)), p, training(), rows);
  }
  const Variable h = norm1(residual(x, attend(x), p, training(), rows));
  return norm2(residual(h, feed_forward(h, rows), p, training(), rows));
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
                                             const MultiheadAttention::Call& cross, HeadRecord* self_record,
                                             HeadRecord* cross_record) const {
  return block(
      x, [&](const Variable& y) { return self_attn(y, y, y, self, self_record); },
      [&](const Variable& y) { return multihead_attn(y, memory, memory, cross, cross_record); });
}

Variable TransformerDecoderLayer::step(const Variable& x, KVCache& self, const KVCache& memory,
                                       const PaddedKeys& memory_keys, HeadRecord* cross_record,
                                       const Tensor& self_mask) const {
  const int64_t rows = x.size(0), width = x.size(2), sentences = memory.keys().size(0);
  return block(
      x, [&](const Variable& y) { return self_attn.step(y, self, self_mask); },
      [&](const Variable& y) {
        // The beams of a sentence are the queries of one batch entry, so its memory is read once for all of them.
        const Variable beams = functional::reshape(y, {sentences, rows / sentences, width});
        return functional::reshape(multihead_attn.attend_memory(beams, memory, memory_keys, cross_record),
                                   {rows, 1, width});
      });
}

namespace {

std::vector<TransformerLayerOptions> alike(const TransformerLayerOptions& options, int64_t layers) {
  return std::vector(static_cast<size_t>(std::max<int64_t>(layers, 0)), options);
}

std::unique_ptr<Norm> norm_behind(const std::vector<TransformerLayerOptions>& layers) {
  const TransformerLayerOptions& last = layers.back();
  return std::make_unique<Norm>(last.norm, last.d_model, last.norm_epsilon, last.norm_bias);
}

}  // namespace

TransformerEncoder::TransformerEncoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm)
    : TransformerEncoder(alike(options, num_layers), final_norm) {}

TransformerEncoder::TransformerEncoder(const std::vector<TransformerLayerOptions>& all, bool final_norm) {
  if (all.empty()) throw ShapeError("TransformerEncoder: no layers; give one at least");
  for (const TransformerLayerOptions& options : all) {
    const std::string name = "layers." + std::to_string(layers.size());
    layers.push_back(std::make_unique<TransformerEncoderLayer>(options));
    register_module(name, *layers.back());
  }
  if (!final_norm) return;
  norm = norm_behind(all);
  register_module("norm", *norm);
}

Variable TransformerEncoder::operator()(Variable x, const MultiheadAttention::Call& call,
                                        AttentionRecord* record) const {
  RecordingOf self(record, layers.size(), &AttentionRecord::encoder, &AttentionRecord::encoder_vectors);
  if (record && record->want_inputs) record->encoder_input = x = Variable(x.value(), /*requires_grad=*/true);
  for (size_t l = 0; l < layers.size(); ++l) {
    if (record && record->want_states) record->encoder_states.push_back(x.value());
    x = (*layers[l])(x, call, self.begin(l));
    self.end();
  }
  if (record && record->want_states) record->encoder_last = x.value();
  return norm ? (*norm)(x) : x;
}

Variable TransformerEncoder::step(Variable x, std::vector<KVCache>& caches) const {
  for (size_t l = 0; l < layers.size(); ++l) x = layers[l]->step(x, caches.at(l));
  return norm ? (*norm)(x) : x;
}

Variable TransformerEncoder::step(Variable x, std::span<std::vector<KVCache>* const> texts) const {
  std::vector<KVCache*> caches(texts.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    for (size_t b = 0; b < texts.size(); ++b) caches[b] = &texts[b]->at(l);
    x = layers[l]->step(x, caches);
  }
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm)
    : TransformerDecoder(alike(options, num_layers), final_norm) {}

TransformerDecoder::TransformerDecoder(const std::vector<TransformerLayerOptions>& all, bool final_norm) {
  if (all.empty() && final_norm) throw ShapeError("TransformerDecoder: a norm behind no layers; give a layer at least");
  for (const TransformerLayerOptions& options : all) {
    const std::string name = "layers." + std::to_string(layers.size());
    layers.push_back(std::make_unique<TransformerDecoderLayer>(options));
    register_module(name, *layers.back());
  }
  if (!final_norm) return;
  norm = norm_behind(all);
  register_module("norm", *norm);
}

Variable TransformerDecoder::operator()(Variable x, const Variable& memory, const MultiheadAttention::Call& self,
                                        const MultiheadAttention::Call& cross, AttentionRecord* record) const {
  RecordingOf decoder(record, layers.size(), &AttentionRecord::decoder, &AttentionRecord::decoder_vectors);
  RecordingOf over_memory(record, layers.size(), &AttentionRecord::cross, &AttentionRecord::cross_vectors);
  if (record && record->want_inputs) record->decoder_input = x = Variable(x.value(), /*requires_grad=*/true);
  for (size_t l = 0; l < layers.size(); ++l) {
    if (record && record->want_states) record->decoder_states.push_back(x.value());
    x = (*layers[l])(x, memory, self, cross, decoder.begin(l), over_memory.begin(l));
    decoder.end();
    over_memory.end();
  }
  return norm ? (*norm)(x) : x;
}

}  // namespace heed::inline v0
