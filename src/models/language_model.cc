#include <algorithm>
#include <cmath>

#include "heed/models.h"
#include "heed/random.h"
#include "kernels/softmax.h"
#include "models/sampler.h"
#include "models/shape.h"
#include "models/token_rules.h"

namespace heed::inline v0 {
namespace {

constexpr double kDeviation = 0.02;  // standard deviation of initial matrices

bool writes_to_residual(const std::string& name) {
  return name.ends_with("self_attn.out_proj.weight") || name.ends_with("linear2.weight");
}

// This rank's part of the tokens, which are padded to the length of the split.
std::vector<int32_t> rows_of(std::vector<int32_t> tokens, const functional::SplitRows& split, int32_t filling) {
  if (std::ssize(tokens) > split.split.length())
    throw ShapeError("LanguageModel: a text of " + std::to_string(tokens.size() + 1) + " tokens, and the split has " +
                     std::to_string(split.split.length()) + " rows; give one more at most");
  tokens.resize(static_cast<size_t>(split.split.length()), filling);
  std::vector<int32_t> own;
  for (const IndexRange& piece : split.split.of(split.rank))
    own.insert(own.end(), tokens.begin() + piece.begin, tokens.begin() + piece.end);
  return own;
}

}  // namespace

int64_t parameter_count(const LanguageModelConfig& c) {
  const ShapesOnly shapes_only;
  return LanguageModel(c).parameter_count();
}

namespace {

std::vector<TransformerLayerOptions> layers_of(const LanguageModelConfig& config) {
  TransformerLayerOptions options = layer_options(config);
  options.kv_heads = config.num_kv_heads;
  options.norm_bias = config.bias;
  return std::vector(static_cast<size_t>(config.num_layers), options);
}

void check_details(const LanguageModelConfig& config, const LanguageModelDetails& details) {
  if (std::ssize(details.layers) != config.num_layers)
    throw ShapeError("LanguageModel: details of " + std::to_string(details.layers.size()) +
                     " layers, the configuration has " + std::to_string(config.num_layers));
  for (const TransformerLayerOptions& layer : details.layers)
    if (layer.d_model != config.d_model)
      throw ShapeError("LanguageModel: a layer of width " + std::to_string(layer.d_model) + ", the configuration has " +
                       std::to_string(config.d_model));
}

}  // namespace

LanguageModel::LanguageModel(const LanguageModelConfig& config)
    : LanguageModel(config, {}, layers_of(validated(config))) {}

LanguageModel::LanguageModel(const LanguageModelConfig& config, LanguageModelDetails details)
    : LanguageModel((check_details(config, details), config), details, details.layers) {}

LanguageModel::LanguageModel(const LanguageModelConfig& config, std::optional<LanguageModelDetails> details,
                             const std::vector<TransformerLayerOptions>& layers)
    : config_(config), details_(std::move(details)), sinusoidal_(config.d_model, held_positions(config)) {
  const double deviation =
      config.positions == "sinusoidal" ? 1 / std::sqrt(static_cast<double>(config.d_model)) : kDeviation;
  const Dims table{config.vocab_size, config.d_model};
  embedding_ = register_parameter("embedding.weight", normal(table, 0, deviation));
  if (!config.tie_embeddings) output_ = register_parameter("output.weight", normal(table, 0, kDeviation));
  if (details_ && details_->classes > 0)
    class_output_ = register_parameter("head.weight", normal({details_->classes, config.d_model}, 0, kDeviation));
  if (config.positions == "learned")
    positions_ = register_parameter("positions.weight", normal({config.max_positions, config.d_model}, 0, kDeviation));
  {
    const NoInit no_init;  // biases begin with 0, matrices follow
    layers_ = std::make_unique<TransformerEncoder>(layers, layers.front().norm_first);
  }
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  for (auto& [name, parameter] : layers_->named_parameters())
    if (parameter.shape().rank() > 1 && !ShapesOnly::here())
      parameter.value().copy_from(normal(parameter.shape(), 0, writes_to_residual(name) ? residual : kDeviation));
  register_module("", *layers_);
}

Variable LanguageModel::embed(const TokenBatch& text, int64_t first_position,
                              const functional::SplitRows* split) const {
  const bool sinusoidal = config_.positions == "sinusoidal";
  return TokenEmbedding{.model = "LanguageModel",
                        .table = embedding_,
                        .factor = details_     ? details_->embedding_factor
                                  : sinusoidal ? std::sqrt(static_cast<double>(config_.d_model))
                                               : 1,
                        .max_positions = config_.max_positions,
                        .learned = positions_,
                        .sinusoidal = sinusoidal ? &sinusoidal_ : nullptr,
                        .dropout = training() ? config_.dropout : 0}(text, first_position, split);
}

Variable LanguageModel::hidden(const TokenBatch& text, AttentionRecord* record) const {
  const MultiheadAttention::Call call = call_of(
      text, text, details_ && !details_->causal ? Causal::none : Causal::top_left, config_.positions == "rotary");
  if (!record) return (*layers_)(embed(text, 0), call);
  AttentionRecord own;
  own.part = record->part;
  own.want_vectors = record->want_vectors;
  own.want_states = record->want_states;
  own.want_inputs = record->want_inputs;
  const Variable y = (*layers_)(embed(text, 0), call, &own);
  record->decoder = std::move(own.encoder);  // its layers are an encoder's, made causal
  record->decoder_vectors = std::move(own.encoder_vectors);
  record->decoder_states = std::move(own.encoder_states);
  record->decoder_input = own.encoder_input;
  return y;
}

void LanguageModel::expect_head(const char* operation) const {
  if (has_logits()) return;
  if (!details_->missing_head.empty())
    throw UsageError(std::string(operation) + ": this is a model " + details_->missing_head +
                     "; it gives states and vectors");
  throw UsageError(std::string(operation) + ": the model has no head that predicts tokens; it " +
                   (details_->classes > 0 ? "classifies texts" : "gives states and vectors"));
}

void LanguageModel::expect_predictions(const char* operation) const {
  expect_head(operation);
  if (details_ && !details_->causal)
    throw UsageError(std::string(operation) +
                     ": each token of this model attends to those after it, so it predicts none; it gives states and "
                     "vectors");
}

Variable LanguageModel::class_scores(const Variable& states, const TokenBatch& texts) const {
  if (!class_output_.defined()) throw UsageError("LanguageModel: the model has no classification head");
  const Tensor rows = Tensor::empty({texts.size()}, DType::i32);
  const Tensor ids = texts.ids.contiguous();
  for (int64_t b = 0; b < texts.size(); ++b) {
    const int64_t begin = texts.is_packed() ? texts.offsets.at<int32_t>(b) : b * ids.size(1);
    int64_t last = begin + texts.lengths.at<int32_t>(b) - 1;
    while (last > begin && ids.data<int32_t>()[last] == details_->class_padding) --last;
    rows.data<int32_t>()[b] = static_cast<int32_t>(last);
  }
  const Variable all = functional::reshape(states, {states.size(0) * states.size(1), states.size(2)});
  return functional::linear(functional::embedding(rows, all), class_output_);
}

Variable LanguageModel::logits_of(const Variable& states) const {
  expect_head("LanguageModel");
  const Variable logits = functional::linear(states, output_weight());
  return details_ && details_->logit_softcap != 0 ? functional::softcap(logits, details_->logit_softcap) : logits;
}

Variable LanguageModel::lens_logits(const Variable& states) const {
  return logits_of(layers_->norm ? (*layers_->norm)(states) : states);
}

Variable LanguageModel::logits(const TokenBatch& text) const { return logits_of(hidden(text)); }

Variable LanguageModel::split_hidden(const TokenBatch& own, const functional::SplitRows& split) const {
  MultiheadAttention::Call call{.causal = Causal::top_left, .tokens = split};
  if (config_.positions == "rotary") call.positions = positions_of(split);
  return (*layers_)(embed(own, 0, &split), call);
}

Variable LanguageModel::loss(const TokenBatch& texts, const functional::CrossEntropyOptions& options,
                             functional::LossParts* parts, const functional::SplitRows* split) const {
  expect_predictions("LanguageModel");
  const std::vector<std::vector<int32_t>> read = texts.sentences();
  std::vector<std::vector<int32_t>> inputs, labels;
  for (int pass = 0; pass < (options.r_drop > 0 ? 2 : 1); ++pass)
    for (const auto& text : read) {
      if (text.empty()) throw ShapeError("LanguageModel: text " + std::to_string(inputs.size()) + " is empty");
      inputs.emplace_back(text.begin(), text.end() - 1);
      labels.emplace_back(text.begin() + 1, text.end());
      if (!split) continue;
      inputs.back() = rows_of(inputs.back(), *split, 0);
      labels.back() = rows_of(labels.back(), *split, options.ignore_index);
    }
  const auto batch_of = [&](const std::vector<std::vector<int32_t>>& sentences, int32_t pad_id) {
    return texts.is_packed() && !split ? TokenBatch::pack(sentences) : TokenBatch::pad(sentences, pad_id);
  };
  const TokenBatch batch = batch_of(inputs, 0);
  const Variable states = split ? split_hidden(batch, *split) : hidden(batch);
  const Tensor targets = batch_of(labels, options.ignore_index).ids;
  if (details_ && details_->logit_softcap != 0) {
    const Variable rows = functional::reshape(logits_of(states), {targets.numel(), config_.vocab_size});
    return functional::cross_entropy(rows, targets.reshape({targets.numel()}), options, parts);
  }
  return functional::linear_cross_entropy(states, output_weight(), {}, targets, options, parts);
}

// Logits (V), float32, of the token after `ids`, which follow the cached tokens.
Tensor LanguageModel::next_logits(const std::vector<int32_t>& ids, std::vector<KVCache>& caches) const {
  const Variable y = layers_->step(embed(TokenBatch::pad({ids}, 0), caches[0].length()), caches);
  const Tensor last = y.value().slice(1, y.size(1) - 1, y.size(1)).contiguous();
  return logits_of(Variable(last)).value().to(DType::f32).reshape({config_.vocab_size});
}

// Logits (B, V), float32, of the token after one token of each text.
Tensor LanguageModel::next_logits(const std::vector<int32_t>& ids, std::span<std::vector<KVCache>* const> texts) const {
  const Tensor x = Tensor::empty({std::ssize(ids), 1, config_.d_model});
  for (size_t b = 0; b < ids.size(); ++b)
    x.select(0, static_cast<int64_t>(b))
        .copy_from(embed(TokenBatch::pad({{ids[b]}}, 0), texts[b]->front().length()).value().select(0, 0));
  return logits_of(layers_->step(Variable(x), texts))
      .value()
      .to(DType::f32)
      .reshape({std::ssize(ids), config_.vocab_size});
}

std::vector<int32_t> LanguageModel::generate(const std::vector<int32_t>& prompt, const GenerateOptions& options) const {
  Generation text(*this, prompt, options);
  std::vector<int32_t> ids;
  while (const std::optional<int32_t> id = text.next()) ids.push_back(*id);
  return ids;
}

struct Generation::State {
  const LanguageModel& model;
  const GenerateOptions options;
  ScoreRules rules;
  const Sampler draw;
  std::vector<KVCache> caches{};
  std::vector<int32_t> window{};  // tokens in view
  std::vector<int32_t> next{};    // end of the window that is not cached yet
  std::vector<int32_t> text{};    // prompt and generated tokens
  size_t prompt = 0;              // its length
  int64_t most = 0;               // limit of `generated`
  int64_t generated = 0;          // tokens after this prompt
  uint64_t drawn = 0;             // tokens drawn so far, over all prompts
  bool ended = false;

  size_t longest() const { return static_cast<size_t>(model.config().max_positions); }

  // Appends a token. A full window drops its first half.
  void take(int32_t id) {
    if (window.size() < longest()) {
      window.push_back(id);
      next = {id};
      return;
    }
    const size_t kept = std::max<size_t>(longest() / 2, 1);
    window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(kept - 1));
    window.push_back(id);
    for (KVCache& cache : caches) cache.clear();
    next = window;
  }

  std::optional<int32_t> draw_from(const Tensor& logits);  // (V)
  bool is_done() const { return ended || generated >= most; }
};

namespace {

// How many tokens may follow a prompt.
int64_t most_tokens(const GenerateOptions& options, int64_t prompt) {
  if (options.max_tokens || !options.max_length) return options.max_tokens.value_or(GenerateOptions::kMaxTokens);
  if (prompt >= *options.max_length)
    throw ShapeError("generate: the prompt has " + std::to_string(prompt) + " tokens and max_length is " +
                     std::to_string(*options.max_length) + "; give max_tokens, or a shorter prompt");
  return *options.max_length - prompt;
}

}  // namespace

Generation::Generation(const LanguageModel& model, const std::vector<int32_t>& prompt, GenerateOptions options) {
  if (!options.refused.empty()) throw UsageError("generate: " + options.refused);
  validate(options);
  model.expect_predictions("generate");
  ScoreRules rules(options.rules, options.stop, model.config().vocab_size, "generate");
  Sampler draw(options.sampling, "generate");
  state_ = std::make_unique<State>(State{model, std::move(options), std::move(rules), std::move(draw)});
  state_->caches.resize(static_cast<size_t>(model.config().num_layers));
  restart(prompt);
}

void Generation::restart(const std::vector<int32_t>& prompt) {
  if (prompt.empty()) throw ShapeError("generate: the prompt is empty; give one token at least");
  State& s = *state_;
  const int64_t may_follow = most_tokens(s.options, std::ssize(prompt));
  std::vector<int32_t> window(prompt.end() - static_cast<std::ptrdiff_t>(std::min(prompt.size(), s.longest())),
                              prompt.end());
  // The last token is always computed: its logits predict the next one.
  const int64_t most = std::min<int64_t>(s.caches.front().length(), std::ssize(window) - 1);
  const auto differ = std::mismatch(s.window.begin(), s.window.begin() + most, window.begin()).first;
  const int64_t kept = differ - s.window.begin();
  for (KVCache& cache : s.caches)
    if (cache.defined()) cache.truncate(kept);
  s.window = std::move(window);
  s.next.assign(s.window.begin() + kept, s.window.end());
  s.text = prompt;
  s.prompt = prompt.size();
  s.most = may_follow;
  s.generated = 0;
  s.ended = false;
}

Generation::~Generation() = default;

std::optional<int32_t> Generation::next() {
  State& s = *state_;
  if (s.is_done()) return {};
  const NoGrad no_grad;
  return s.draw_from(s.model.next_logits(s.next, s.caches));
}

std::optional<int32_t> Generation::State::draw_from(const Tensor& logits) {
  check_finite("generate", "a logit", logits, model);
  if (!rules.empty())
    rules.apply({.ids = text, .source = std::span(text).first(prompt), .prompt = prompt, .last = generated + 1 == most},
                logits.span<float>());
  const int32_t id = draw(logits.span<float>(), options.sample, drawn++);
  text.push_back(id);
  ended = std::find(options.stop.begin(), options.stop.end(), id) != options.stop.end();
  if (ended) return {};
  ++generated;
  take(id);
  ended = options.on_token && !options.on_token(id);
  return id;
}

std::vector<std::vector<int32_t>> LanguageModel::generate(std::span<const std::vector<int32_t>> prompts,
                                                          const GenerateOptions& options, int64_t together,
                                                          const std::function<bool(size_t, int32_t)>& on_token) const {
  if (together < 1) throw ShapeError("generate: " + std::to_string(together) + " texts together; it must be 1 or more");
  if (options.on_token) throw ShapeError("generate: of many prompts on_token is an argument; leave it out of options");
  const NoGrad no_grad;
  std::vector<std::vector<int32_t>> written(prompts.size());
  std::vector<std::unique_ptr<Generation>> open;
  std::vector<size_t> texts;  // those that are open
  const auto take = [&](size_t at, const Tensor& logits) {
    if (const std::optional<int32_t> id = open[at]->state_->draw_from(logits)) written[texts[at]].push_back(*id);
  };
  for (size_t begun = 0; begun < prompts.size() || !open.empty();) {
    for (; begun < prompts.size() && std::ssize(open) < together; ++begun) {
      GenerateOptions own = options;
      own.sample += begun;
      if (on_token) own.on_token = [&on_token, begun](int32_t id) { return on_token(begun, id); };
      open.push_back(std::make_unique<Generation>(*this, prompts[begun], std::move(own)));
      texts.push_back(begun);
    }
    std::vector<size_t> steps;  // those with one token to compute
    std::vector<int32_t> ids;
    std::vector<std::vector<KVCache>*> caches;
    for (size_t at = 0; at < open.size(); ++at) {
      Generation::State& s = *open[at]->state_;
      if (s.is_done()) continue;
      if (s.next.size() == 1 && s.caches.front().defined()) {
        steps.push_back(at);
        ids.push_back(s.next[0]);
        caches.push_back(&s.caches);
      } else {
        take(at, next_logits(s.next, s.caches));
      }
    }
    if (!steps.empty()) {
      const Tensor logits = next_logits(ids, caches);
      for (size_t i = 0; i < steps.size(); ++i) take(steps[i], logits.select(0, static_cast<int64_t>(i)));
    }
    for (size_t at = open.size(); at-- > 0;) {
      if (!open[at]->state_->is_done()) continue;
      open.erase(open.begin() + static_cast<int64_t>(at));
      texts.erase(texts.begin() + static_cast<int64_t>(at));
    }
  }
  return written;
}

std::vector<float> LanguageModel::log_probabilities(const std::vector<int32_t>& text) const {
  expect_predictions("log_probabilities");
  if (text.size() < 2)
    throw ShapeError(
        "log_probabilities: the text has fewer than 2 tokens; "
        "nothing is predicted");
  for (const int32_t id : text)
    if (id < 0 || id >= config_.vocab_size)
      throw ShapeError("log_probabilities: token " + std::to_string(id) + " is not in 0.." +
                       std::to_string(config_.vocab_size - 1));
  const NoGrad no_grad;
  constexpr int64_t kRows = 256;  // rows whose logits are in memory at once
  const auto longest = static_cast<size_t>(config_.max_positions), kept = std::max<size_t>(longest / 2, 1);
  std::vector<float> result;
  for (size_t begin = 0; result.size() + 1 < text.size();) {
    const size_t end = std::min(begin + longest, text.size() - 1);  // the last token predicts nothing
    const auto at = [&](size_t i) { return text.begin() + static_cast<std::ptrdiff_t>(i); };
    const Tensor states = hidden(TokenBatch::pad({{at(begin), at(end)}}, 0)).value();  // (1, end - begin, E)
    const auto last = static_cast<int64_t>(end - begin);
    for (auto row = static_cast<int64_t>(result.size() - begin); row < last; row += kRows) {
      const Tensor some = states.slice(1, row, std::min(row + kRows, last)).contiguous();
      const Tensor logits = logits_of(Variable(some)).value().to(DType::f32);
      check_finite("log_probabilities", "a logit", logits, *this);
      for (int64_t i = 0; i < some.size(1); ++i) {
        const float* const scores = logits.data<float>() + i * config_.vocab_size;
        const RowLogSum<float> whole = log_sum_exp<float>(scores, config_.vocab_size);
        result.push_back(whole.below(scores[*at(result.size() + 1)]));
      }
    }
    begin = end + 1 - std::min(kept, end + 1);
  }
  return result;
}

}  // namespace heed::inline v0
