#include "heed/speech_transformer.h"

#include <algorithm>
#include <numeric>

#include "heed/random.h"
#include "kernels/unfold.h"
#include "models/sampler.h"
#include "models/shape.h"
#include "models/token_rules.h"

namespace heed::inline v0 {
namespace {

constexpr double kDeviation = 0.02;  // standard deviation of initial matrices
constexpr int64_t kFrames = 3;       // width of a convolution, with one frame of padding at each end
constexpr int64_t kStep = 2;         // stride of the second convolution

const SpeechTransformerConfig& checked(const SpeechTransformerConfig& c) {
  const auto need = [](const char* field, int64_t value) {
    if (value < 1)
      throw ShapeError(std::string("SpeechTransformer: ") + field + " is " + std::to_string(value) +
                       "; it must be 1 or more");
  };
  need("vocab_size", c.vocab_size), need("mel_bins", c.mel_bins), need("d_model", c.d_model);
  need("max_source_positions", c.max_source_positions), need("max_target_positions", c.max_target_positions);
  for (const auto* layers : {&c.encoder, &c.decoder}) {
    need("a number of layers", std::ssize(*layers));
    for (const TransformerLayerOptions& layer : *layers)
      if (layer.d_model != c.d_model)
        throw ShapeError("SpeechTransformer: a layer of width " + std::to_string(layer.d_model) +
                         ", the configuration has " + std::to_string(c.d_model));
  }
  return c;
}

template <class T>
Variable unfold(const Variable& x, const Unfolding& how) {
  const Tensor input = x.value().contiguous();
  const Tensor y = Tensor::empty({how.batch, how.rows(), how.channels * how.size}, input.dtype());
  unfold_forward<T>(input.data<T>(), y.data<T>(), how, default_executor());
  return custom_op("unfold", {x}, y, [how](const Tensor& grad, Gradients& g) {
    const Tensor dx = Tensor::empty({how.batch, how.length, how.channels}, grad.dtype());
    unfold_backward<T>(grad.data<T>(), dx.data<T>(), how, default_executor());
    g.set(0, dx);
  });
}

// A convolution over the rows of x (B, L, C), and gelu: (B, L / step, outputs). Its weight is (outputs, C * kFrames).
Variable convolved(const Variable& x, const Linear& layer, int64_t step) {
  const Unfolding how{.batch = x.size(0),
                      .length = x.size(1),
                      .channels = x.size(2),
                      .size = kFrames,
                      .step = step,
                      .padding = kFrames / 2};
  return functional::gelu(layer(x.dtype() == DType::f64 ? unfold<double>(x, how) : unfold<float>(x, how)));
}

}  // namespace

SpeechTransformer::SpeechTransformer(const SpeechTransformerConfig& config)
    : config_(checked(config)),
      conv1_(config.mel_bins * kFrames, config.d_model),
      conv2_(config.d_model * kFrames, config.d_model) {
  const auto table = [&](const char* name, int64_t rows) {
    return register_parameter(name, normal({rows, config.d_model}, 0, kDeviation));
  };
  register_module("conv1", conv1_);
  register_module("conv2", conv2_);
  embedding_ = table("embedding.weight", config.vocab_size);
  if (!config.tie_embeddings) output_ = table("output.weight", config.vocab_size);
  source_positions_ = table("source_positions.weight", config.max_source_positions);
  target_positions_ = table("target_positions.weight", config.max_target_positions);
  encoder_ = std::make_unique<TransformerEncoder>(config.encoder, /*final_norm=*/true);
  decoder_ = std::make_unique<TransformerDecoder>(config.decoder, /*final_norm=*/true);
  register_module("encoder", *encoder_);
  register_module("decoder", *decoder_);
}

Variable SpeechTransformer::encode(const Tensor& mel, AttentionRecord* record) const {
  const int64_t states = config_.max_source_positions, frames = kStep * states;
  if (mel.rank() != 3 || mel.size(1) != config_.mel_bins || mel.size(2) != frames || !is_floating(mel.dtype()))
    throw ShapeError("SpeechTransformer: a spectrum " + to_string(mel.shape()) + " of " + name_of(mel.dtype()) +
                     "; the model takes (B, " + std::to_string(config_.mel_bins) + ", " + std::to_string(frames) +
                     "), floating; fill up a shorter one with silence");
  const Variable x(mel.transpose(1, 2).contiguous().to(conv1_.bias.dtype()));
  const Variable heard = convolved(convolved(x, conv1_, 1), conv2_, kStep);
  const Tensor places = Tensor::empty({states}, DType::i32);
  std::iota(places.data<int32_t>(), places.data<int32_t>() + states, 0);
  const Variable placed =
      functional::add(heard, functional::embedding(places.expand({mel.size(0), states}), source_positions_));
  return (*encoder_)(functional::dropout(placed, training() ? config_.dropout : 0), {}, record);
}

Variable SpeechTransformer::embed(const TokenBatch& target, int64_t first_position) const {
  return TokenEmbedding{.model = "SpeechTransformer",
                        .table = embedding_,
                        .factor = 1,
                        .max_positions = config_.max_target_positions,
                        .learned = target_positions_,
                        .sinusoidal = nullptr,
                        .dropout = training() ? config_.dropout : 0,
                        .padding_id = config_.padding_id}(target, first_position);
}

Variable SpeechTransformer::decode(const TokenBatch& target, const Variable& memory, AttentionRecord* record) const {
  if (target.is_packed())
    throw ShapeError("SpeechTransformer: the target is packed; it must be padded: give TokenBatch::pad");
  if (target.size() != memory.size(0))
    throw ShapeError("SpeechTransformer: " + std::to_string(target.size()) + " targets for " +
                     std::to_string(memory.size(0)) + " spectra; each needs one");
  return (*decoder_)(embed(target, 0), memory, {.causal = Causal::top_left}, {}, record);
}

Variable SpeechTransformer::logits_of(const Variable& states) const {
  if (!config_.has_head)
    throw UsageError(config_.missing_head.empty()
                         ? "SpeechTransformer: the model has no head that predicts tokens; it gives states"
                         : "SpeechTransformer: this is a model " + config_.missing_head + "; it gives states");
  return functional::linear(states, output_weight());
}

std::vector<int32_t> SpeechTransformer::transcribe(const Tensor& mel, const TranscribeOptions& options) const {
  if (options.prompt.empty()) throw ShapeError("transcribe: the prompt is empty; give the start token at least");
  if (options.max_tokens < 0)
    throw ShapeError("transcribe: max_tokens is " + std::to_string(options.max_tokens) + "; it must be 0 or more");
  if (mel.rank() != 3 || mel.size(0) != 1)
    throw ShapeError("transcribe: spectra " + to_string(mel.shape()) + "; give one, (1, mel_bins, frames)");
  const ScoreRules rules({.never = options.never, .never_first = options.never_first}, options.stop, config_.vocab_size,
                         "transcribe");
  const Sampler draw(options.sampling, "transcribe");
  const NoGrad no_grad;
  const Variable memory = encode(mel);
  std::vector<KVCache> self(decoder_->layers.size()), cross;
  for (const auto& layer : decoder_->layers) cross.push_back(layer->multihead_attn.project_memory(memory));
  const PaddedKeys heard{Tensor::full({1}, static_cast<double>(config_.max_source_positions), DType::i32)};
  std::vector<int32_t> text = options.prompt;
  const size_t written_from = text.size();
  for (size_t position = 0; position < text.size(); ++position) {
    Variable x = embed(TokenBatch::pad({{text[position]}}, 0), static_cast<int64_t>(position));
    for (size_t l = 0; l < self.size(); ++l) x = decoder_->layers[l]->step(x, self[l], cross[l], heard);
    const size_t written = text.size() - written_from;
    const bool last = position + 1 == static_cast<size_t>(config_.max_target_positions);
    if (position + 1 < text.size()) continue;  // of the prompt
    if (last || static_cast<int64_t>(written) == options.max_tokens) break;
    const Tensor logits = logits_of((*decoder_->norm)(x)).value().to(DType::f32).reshape({config_.vocab_size});
    check_finite("transcribe", "a logit", logits, *this);
    rules.apply({.ids = text, .prompt = written_from}, logits.span<float>());
    const int32_t id = draw(logits.span<float>(), 0, written);
    if (std::find(options.stop.begin(), options.stop.end(), id) != options.stop.end()) break;
    text.push_back(id);
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(written_from), text.end()};
}

}  // namespace heed::inline v0
