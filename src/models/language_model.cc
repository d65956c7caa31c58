#include <algorithm>
#include <cmath>

#include "heed/models.h"
#include "heed/random.h"
#include "models/sampler.h"
#include "models/shape.h"

namespace heed::inline v0 {
namespace {

constexpr double kDeviation = 0.02;  // of initial matrices

bool writes_to_residual(const std::string& name) {
  return name.ends_with("self_attn.out_proj.weight") || name.ends_with("linear2.weight");
}

}  // namespace

void validate(const LanguageModelConfig& c) {
  const ConfigCheck check("LanguageModel");
  check.common(c);
  check.range("num_layers", c.num_layers, 1, 1000);
  check.range("num_kv_heads", c.num_kv_heads, 0, c.nhead);
  if (c.num_kv_heads > 0 && c.nhead % c.num_kv_heads)
    check.fail("nhead " + std::to_string(c.nhead) + " is not a multiple of num_kv_heads " +
               std::to_string(c.num_kv_heads));
}

int64_t parameter_count(const LanguageModelConfig& c) {
  const int64_t e = c.d_model, b = c.bias ? 1 : 0;
  const int64_t kv = e / c.nhead * (c.num_kv_heads ? c.num_kv_heads : c.nhead);
  const int64_t attention = (e + 2 * kv) * (e + b) + e * (e + b);
  const int64_t norm = c.norm == "layer_norm" ? e + b * e : e;
  const int64_t tables = (c.tie_embeddings ? 1 : 2) * c.vocab_size * e;
  const int64_t positions = c.positions == "learned" ? c.max_positions * e : 0;
  return tables + positions + c.num_layers * (attention + feed_forward_parameters(c) + 2 * norm) +
         (c.norm_first ? norm : 0);
}

LanguageModel::LanguageModel(const LanguageModelConfig& config) : config_(config), sinusoidal_(config.d_model) {
  validate(config);
  const double deviation =
      config.positions == "sinusoidal" ? 1 / std::sqrt(static_cast<double>(config.d_model)) : kDeviation;
  const Dims table{config.vocab_size, config.d_model};
  embedding_ = register_parameter("embedding.weight", normal(table, 0, deviation));
  if (!config.tie_embeddings) output_ = register_parameter("output.weight", normal(table, 0, kDeviation));
  if (config.positions == "learned")
    positions_ = register_parameter("positions.weight", normal({config.max_positions, config.d_model}, 0, kDeviation));
  TransformerLayerOptions options = layer_options(config);
  options.kv_heads = config.num_kv_heads;
  options.norm_bias = config.bias;
  {
    const NoInit no_init;  // biases begin with 0, matrices follow
    layers_ = std::make_unique<TransformerEncoder>(options, config.num_layers, config.norm_first);
  }
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  for (auto& [name, parameter] : layers_->named_parameters())
    if (parameter.shape().rank() > 1)
      parameter.value().copy_from(normal(parameter.shape(), 0, writes_to_residual(name) ? residual : kDeviation));
  register_module("", *layers_);
}

Variable LanguageModel::embed(const Tensor& ids, int64_t first_position) const {
  const bool sinusoidal = config_.positions == "sinusoidal";
  return TokenEmbedding{.model = "LanguageModel",
                        .table = embedding_,
                        .factor = sinusoidal ? std::sqrt(static_cast<double>(config_.d_model)) : 1,
                        .max_positions = config_.max_positions,
                        .learned = positions_,
                        .sinusoidal = sinusoidal ? &sinusoidal_ : nullptr,
                        .dropout = training() ? config_.dropout : 0}({ids, {}}, first_position);
}

Variable LanguageModel::hidden(const TokenBatch& text, AttentionRecord* record) const {
  if (text.is_packed()) throw ShapeError("LanguageModel: the batch is packed; pad it");
  return (*layers_)(embed(text.ids, 0), {.causal = Causal::top_left}, record ? &record->decoder : nullptr,
                    record && record->want_vectors ? &record->decoder_vectors : nullptr,
                    record ? record->part : RecordedPart());
}

Variable LanguageModel::logits(const TokenBatch& text) const {
  return functional::linear(hidden(text), output_weight());
}

Variable LanguageModel::loss(const std::vector<std::vector<int32_t>>& texts,
                             const functional::CrossEntropyOptions& options, functional::LossParts* parts) const {
  std::vector<std::vector<int32_t>> inputs, labels;
  for (int pass = 0; pass < (options.r_drop > 0 ? 2 : 1); ++pass)
    for (const auto& text : texts) {
      if (text.empty()) throw ShapeError("LanguageModel: text " + std::to_string(inputs.size()) + " is empty");
      inputs.emplace_back(text.begin(), text.end() - 1);
      labels.emplace_back(text.begin() + 1, text.end());
    }
  const Variable x = hidden(TokenBatch::pad(inputs, 0));
  return functional::linear_cross_entropy(x, output_weight(), {}, TokenBatch::pad(labels, options.ignore_index).ids,
                                          options, parts);
}

// Logits (V), float32, of what follows `ids`, which stand behind what is cached.
Tensor LanguageModel::next_logits(const std::vector<int32_t>& ids, std::vector<KVCache>& caches) const {
  const Variable y = layers_->step(embed(TokenBatch::pad({ids}, 0).ids, caches[0].length()), caches);
  const Tensor last = y.value().slice(1, y.size(1) - 1, y.size(1)).contiguous();
  return functional::linear(Variable(last), output_weight()).value().to(DType::f32).reshape({config_.vocab_size});
}

std::vector<int32_t> LanguageModel::generate(const std::vector<int32_t>& prompt, const GenerateOptions& options) const {
  if (prompt.empty()) throw ShapeError("generate: the prompt is empty; give one token at least");
  const Sampler draw(options, config_.vocab_size);
  const NoGrad no_grad;
  const auto longest = static_cast<size_t>(config_.max_positions), kept = std::max<size_t>(longest / 2, 1);
  std::vector<KVCache> caches(static_cast<size_t>(config_.num_layers));
  std::vector<int32_t> window(prompt.end() - static_cast<std::ptrdiff_t>(std::min(prompt.size(), longest)),
                              prompt.end());      // what is in view
  std::vector<int32_t> next = window, generated;  // next: what is not cached yet
  while (static_cast<int64_t>(generated.size()) < options.max_tokens) {
    const Tensor logits = next_logits(next, caches);
    const int32_t id = draw(logits.span<float>(), generated.size());
    if (std::find(options.stop.begin(), options.stop.end(), id) != options.stop.end()) break;
    generated.push_back(id);
    if (options.on_token && !options.on_token(id)) break;
    if (window.size() == longest) {
      window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(kept - 1));
      window.push_back(id);
      for (KVCache& cache : caches) cache.clear();
      next = window;
    } else {
      window.push_back(id);
      next = {id};
    }
  }
  return generated;
}

}  // namespace heed::inline v0
