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

struct Transformer::Stacks {
  explicit Stacks(const TransformerConfig& c)
      : encoder(static_cast<size_t>(c.num_encoder_layers), layer_options(c)),
        decoder(static_cast<size_t>(c.num_decoder_layers), layer_options(c)),
        encoder_norm(c.norm_first),
        decoder_norm(c.norm_first) {}
  explicit Stacks(const TransformerDetails& d)
      : encoder(d.encoder), decoder(d.decoder), encoder_norm(d.encoder_norm), decoder_norm(d.decoder_norm) {}
  std::vector<TransformerLayerOptions> encoder, decoder;
  bool encoder_norm, decoder_norm;
};

namespace {

void check_details(const TransformerConfig& config, const TransformerDetails& details) {
  const auto check = [&](const char* stack, const std::vector<TransformerLayerOptions>& layers, int64_t count) {
    if (std::ssize(layers) != count || (layers.empty() && stack == std::string("encoder")))
      throw ShapeError(std::string("Transformer: details of ") + std::to_string(layers.size()) + " " + stack +
                       " layers, the configuration has " + std::to_string(count));
    for (const TransformerLayerOptions& layer : layers)
      if (layer.d_model != config.d_model)
        throw ShapeError("Transformer: a layer of width " + std::to_string(layer.d_model) + ", the configuration has " +
                         std::to_string(config.d_model));
  };
  check("encoder", details.encoder, config.num_encoder_layers);
  check("decoder", details.decoder, config.num_decoder_layers);
  const Dims table{details.position_offset + config.max_positions, config.d_model};
  if (details.fixed_positions.defined() && !(details.fixed_positions.shape() == table))
    throw ShapeError("Transformer: fixed positions " + to_string(details.fixed_positions.shape()) + "; give " +
                     to_string(table));
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config) : Transformer(config, {}, Stacks(validated(config))) {}

Transformer::Transformer(const TransformerConfig& config, TransformerDetails details)
    : Transformer((check_details(config, details), config), details, Stacks(details)) {}

Transformer::Transformer(const TransformerConfig& config, std::optional<TransformerDetails> details,
                         const Stacks& stacks)
    : config_(config), details_(std::move(details)), sinusoidal_(config.d_model, held_positions(config)) {
  const double deviation = 1 / std::sqrt(static_cast<double>(config.d_model));
  const auto table = [&](const char* name, int64_t pieces) {
    return register_parameter(name, normal({pieces, config.d_model}, 0, deviation));
  };
  const bool shared = config.source_vocab_size == 0 && (config.tie_embeddings || (details_ && details_->one_embedding));
  source_ = table(shared ? "embedding.weight" : "source_embedding.weight", config.source_pieces());
  if (!shared) target_ = table("target_embedding.weight", config.vocab_size);
  if (!config.tie_embeddings) output_ = table("output.weight", config.vocab_size);
  if (config.positions == "learned") {
    const int64_t rows = config.max_positions + (details_ ? details_->position_offset : 0);
    source_positions_ = table("source_positions.weight", rows);
    target_positions_ = table("target_positions.weight", rows);
  }
  if (details_) {
    const TransformerDetails& d = *details_;
    if (d.fixed_positions.defined()) fixed_positions_ = Variable(d.fixed_positions);
    if (d.embedding_norm) {
      source_norm_ = std::make_unique<LayerNorm>(config.d_model, *d.embedding_norm);
      target_norm_ = std::make_unique<LayerNorm>(config.d_model, *d.embedding_norm);
      register_module("source_norm", *source_norm_);
      register_module("target_norm", *target_norm_);
    }
    if (d.relative_buckets > 0) {
      source_bias_ = register_parameter("source_bias.weight", constant({d.relative_buckets, d.encoder[0].nhead}, 0));
      if (!d.decoder.empty())
        target_bias_ = register_parameter("target_bias.weight", constant({d.relative_buckets, d.decoder[0].nhead}, 0));
    }
    if (d.logit_bias) logit_bias_ = register_parameter("output.bias", constant({config.vocab_size}, 0));
    if (d.classes > 0) {
      class_dense_ = std::make_unique<Linear>(config.d_model, config.d_model);
      class_output_ = std::make_unique<Linear>(config.d_model, d.classes);
      register_module("head.dense", *class_dense_);
      register_module("head.output", *class_output_);
    }
  }
  encoder_ = std::make_unique<TransformerEncoder>(stacks.encoder, stacks.encoder_norm);
  decoder_ = std::make_unique<TransformerDecoder>(stacks.decoder, stacks.decoder_norm);
  register_module("encoder", *encoder_);
  register_module("decoder", *decoder_);
}

MultiheadAttention::Call call_of(const TokenBatch& queries, const TokenBatch& keys, Causal causal, bool rotary) {
  if (keys.is_packed())
    return {.causal = causal,
            .tokens = PackedTokens{queries.offsets, keys.offsets},
            .positions = rotary ? queries.positions : Tensor{}};
  // The end of a sentence is hidden by causality.
  if (causal != Causal::none) return {.causal = causal};
  return {.tokens = PaddedKeys{keys.lengths}};
}

Variable Transformer::embed(const TokenBatch& batch, const Variable& table, const Variable& learned,
                            const LayerNorm* norm, int64_t first_position) const {
  // Vaswani et al. 2017, 3.4: embeddings times sqrt(d_model).
  const double factor = details_ ? details_->embedding_factor : std::sqrt(static_cast<double>(config_.d_model));
  return TokenEmbedding{.model = "Transformer",
                        .table = table,
                        .factor = factor,
                        .max_positions = config_.max_positions,
                        .learned = fixed_positions_.defined() ? fixed_positions_ : learned,
                        .sinusoidal = config_.positions == "sinusoidal" && !details_ ? &sinusoidal_ : nullptr,
                        .dropout = training() ? config_.dropout : 0,
                        .position_offset = details_ ? details_->position_offset : 0,
                        .unnumbered_id = details_ ? details_->unnumbered_id : -1,
                        .norm = norm,
                        .padding_id = details_ ? details_->padding_id : -1}(batch, first_position);
}

Variable Transformer::embed_source(const TokenBatch& batch) const {
  return embed(batch, source_, source_positions_, source_norm_.get(), 0);
}

Variable Transformer::embed_target(const TokenBatch& batch, int64_t first_position) const {
  return embed(batch, target_embedding(), target_positions_, target_norm_.get(), first_position);
}

namespace {

// The message for a model that cannot write; `why` unless its files lack something.
std::string gives_states(const std::optional<TransformerDetails>& details, const std::string& why) {
  const bool lacks = details && !details->missing_head.empty();
  return "Transformer: " + (lacks ? "this is a model " + details->missing_head : why) + "; it gives states and vectors";
}

// The relative position bias that `weight` adds to the scores of self-attention; undefined without `weight`.
Variable bias_of(const Variable& weight, const TokenBatch& batch, bool both_ways, int64_t distance) {
  if (!weight.defined()) return {};
  if (batch.is_packed())
    throw ShapeError("Transformer: relative positions are for padded batches; give TokenBatch::pad");
  const int64_t length = batch.ids.size(1);
  return functional::relative_position_bias(weight, length, length, both_ways, distance);
}

}  // namespace

Variable Transformer::encode(const TokenBatch& source, AttentionRecord* record) const {
  MultiheadAttention::Call call = call_of(source, source, Causal::none, config_.positions == "rotary");
  call.learned_mask = bias_of(source_bias_, source, true, details_ ? details_->relative_distance : 0);
  return (*encoder_)(embed_source(source), call, record);
}

Variable Transformer::decode(const TokenBatch& target, const Variable& memory, const TokenBatch& source,
                             AttentionRecord* record) const {
  if (decoder_->layers.empty()) throw UsageError(gives_states(details_, "the model encodes texts, and has no decoder"));
  if (source.is_packed() != target.is_packed())
    throw ShapeError("Transformer: one of source and target is packed, the other padded; pack both or pad both");
  MultiheadAttention::Call self = call_of(target, target, Causal::top_left, config_.positions == "rotary");
  self.learned_mask = bias_of(target_bias_, target, false, details_ ? details_->relative_distance : 0);
  return (*decoder_)(embed_target(target, 0), memory, self, call_of(target, source, Causal::none, false), record);
}

// Bias from the token at `position` to itself and the tokens before it: (1, H, 1, position + 1), or undefined.
Tensor Transformer::decoder_bias(int64_t position) const {
  if (!target_bias_.defined()) return {};
  return functional::relative_position_bias(target_bias_, 1, position + 1, /*both_ways=*/false,
                                            details_->relative_distance, position)
      .value();
}

Variable Transformer::decode_again(const TokenBatch& texts) const {
  std::vector<std::vector<int32_t>> shifted = texts.sentences();
  for (std::vector<int32_t>& text : shifted) {
    if (text.empty()) continue;
    text.insert(text.begin(), config_.bos_id);
    text.pop_back();
  }
  const TokenBatch target = texts.is_packed() ? TokenBatch::pack(shifted) : TokenBatch::pad(shifted, config_.pad_id);
  return decode(target, encode(texts), texts);
}

Variable Transformer::class_scores(const TokenBatch& texts) const {
  if (!class_output_) throw UsageError("Transformer: the model has no classification head");
  const std::vector<std::vector<int32_t>> read = texts.sentences();
  const Tensor rows = Tensor::empty({texts.size()}, DType::i32);
  int64_t next = 0;
  for (size_t b = 0; b < read.size(); ++b) {
    const std::vector<int32_t>& text = read[b];
    const auto last_end = std::find(text.rbegin(), text.rend(), config_.eos_id);
    if (last_end == text.rend())
      throw ShapeError("Transformer: a text has no end token; its class is read there, so add one");
    const int64_t begin = texts.is_packed() ? next : static_cast<int64_t>(b) * texts.ids.size(1);
    rows.data<int32_t>()[b] = static_cast<int32_t>(begin + (text.rend() - last_end) - 1);
    next += std::ssize(text);
  }
  const Variable states = decode_again(texts);
  const Variable all = functional::reshape(states, {states.size(0) * states.size(1), states.size(2)});
  return (*class_output_)(functional::tanh((*class_dense_)(functional::embedding(rows, all))));
}

bool Transformer::has_logits() const {
  return config_.num_decoder_layers > 0 && !class_output_ && (!details_ || details_->has_head);
}

const Transformer& Transformer::expect_writing() const {
  if (config_.num_decoder_layers == 0)
    throw UsageError(gives_states(details_, "the model encodes texts, and has no decoder"));
  if (class_output_) throw UsageError("Transformer: the model has no head that predicts tokens; it classifies texts");
  if (!has_logits()) throw UsageError(gives_states(details_, "the model has no head that predicts tokens"));
  return *this;
}

Variable Transformer::logits_of(const Variable& states) const {
  expect_writing();
  const bool scaled = details_ && details_->state_factor != 1;
  return functional::linear(scaled ? functional::scale(states, details_->state_factor) : states, output_weight(),
                            logit_bias_);
}

Variable Transformer::lens_logits(const Variable& states) const {
  return logits_of(decoder_->norm ? (*decoder_->norm)(states) : states);
}

Variable Transformer::loss(const TokenBatch& source, const TokenBatch& target,
                           const functional::CrossEntropyOptions& options, functional::LossParts* parts) const {
  expect_writing();
  if (source.size() != target.size())
    throw ShapeError("Transformer: " + std::to_string(source.size()) + " sources and " + std::to_string(target.size()) +
                     " targets; each needs the other");
  const std::vector<std::vector<int32_t>> read = source.sentences(), written = target.sentences();
  std::vector<std::vector<int32_t>> sources, inputs, labels;
  for (int pass = 0; pass < (options.r_drop > 0 ? 2 : 1); ++pass) {
    for (const auto& sentence : read) {
      sources.push_back(sentence);
      if (!details_) sources.back().push_back(config_.eos_id);
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
  Variable hidden = decode(batch_of(inputs, config_.pad_id), encode(ended), ended);
  if (details_) hidden = functional::scale(hidden, details_->state_factor);
  const Tensor label_ids = batch_of(labels, options.ignore_index).ids;
  return functional::linear_cross_entropy(hidden, output_weight(), logit_bias_, label_ids, options, parts);
}

Variable Transformer::logits(const TokenBatch& source, const TokenBatch& target) const {
  return logits_of(decode(target, encode(source), source));
}

}  // namespace heed::inline v0
