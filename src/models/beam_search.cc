// Beam search over the decoder with cached keys and values. All beams of all open sentences form one batch; finished
// sentences leave it. Sampling and scoring given translations run the same loop with other candidates.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <span>

#include "heed/models.h"
#include "kernels/chunks.h"
#include "kernels/linear.h"
#include "kernels/softmax.h"
#include "models/sampler.h"
#include "models/token_rules.h"

namespace heed::inline v0 {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Beam {
  int64_t row = 0;  // row among those of its sentence in the batch
  std::vector<int32_t> ids{};
  float log_probability = kImpossible;
  uint64_t draw = 0;                             // index of the sampled translation of its sentence
  std::vector<float> token_log_probabilities{};  // one per step
  std::vector<std::vector<float>> attention{};   // a row over the source per step, if requested
};

struct Sentence {
  size_t index = 0;  // in the caller's list
  int64_t source_length = 0, max_length = 0;
  std::vector<Beam> beams{};
  std::vector<int64_t> parents{};  // of each row, its row in the previous step
  std::vector<Hypothesis> finished{};
};

struct Candidate {
  float log_probability;
  int32_t beam, token;
  // Ties go to the earlier beam and token, so that the result does not depend on the sorting algorithm.
  bool operator<(const Candidate& o) const {
    if (log_probability != o.log_probability) return log_probability > o.log_probability;
    return beam != o.beam ? beam < o.beam : token < o.token;
  }
};

constexpr int64_t kBlock = 16;  // tokens compared at once

// Whether one of `count` tokens is more probable than `least`. Without a branch, so that compilers vectorise it.
bool some_above(const float* scores, int64_t count, float before, float least) {
  int above = 0;
  for (int64_t i = 0; i < count; ++i) above |= before + scores[i] > least;
  return above != 0;
}

// Scores of the next token of each row: log p = logits - lse.
struct Scores {
  Tensor logits, lse;  // (rows, V), (rows)
};

// The output layer and the normalisation of its scores, kept over many steps.
class OutputLayer {
 public:
  /// `rows` are those of the first full step.
  OutputLayer(const Tensor& weight, const Variable& bias, double factor, int64_t rows)
      : weight_(weight), bias_(bias), factor_(factor) {
    constexpr int64_t kRepays = 24;  // rows
    if (rows < kRepays) return;
    with_weights<float>(weight_, [&](const auto& w) { packed_.emplace(w, weight_.size(1), weight_.size(0), ex_); });
  }
  Scores operator()(const Variable& hidden) const {
    const int64_t rows = hidden.size(0), width = weight_.size(1), vocabulary = weight_.size(0);
    const Scores scores{Tensor::empty({rows, vocabulary}), Tensor::empty({rows})};
    const Tensor x = (factor_ == 1 ? hidden : functional::scale(hidden, factor_)).value().contiguous();
    float* const logits = scores.logits.data<float>();
    if (packed_)
      linear_forward(x.data<float>(), *packed_, logits, rows, ex_);
    else
      with_weights<float>(weight_, [&](const auto& w) {
        linear_forward<float>(x.data<float>(), w, nullptr, logits, rows, width, vocabulary, ex_);
      });
    for_rows(rows, vocabulary, ex_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* const of_row = logits + row * vocabulary;
        if (bias_.defined())
          for (int64_t token = 0; token < vocabulary; ++token) of_row[token] += bias_.value().data<float>()[token];
        scores.lse.data<float>()[row] = log_sum_exp<float>(of_row, vocabulary).sum();
      }
    });
    return scores;
  }

 private:
  const Tensor& weight_;
  const Variable& bias_;
  double factor_;  // multiplies the states
  Executor& ex_ = default_executor();
  std::optional<PackedWeight<float>> packed_;
};

// The best `count` continuations of a sentence's beams, whose rows begin with `first_row`.
std::vector<Candidate> best_candidates(const Sentence& sentence, const Scores& scores, int64_t first_row, size_t count,
                                       int32_t forbidden) {
  const int64_t vocabulary = scores.logits.size(1);
  std::vector<Candidate> heap;  // the worst kept candidate on top
  for (size_t b = 0; b < sentence.beams.size(); ++b) {
    if (sentence.beams[b].log_probability == kImpossible) continue;
    const int64_t row_of_beam = first_row + sentence.beams[b].row;
    const float before = sentence.beams[b].log_probability - scores.lse.data<float>()[row_of_beam];
    const float* row = scores.logits.data<float>() + row_of_beam * vocabulary;
    for (int64_t begin = 0; begin < vocabulary; begin += kBlock) {
      const int64_t end = std::min(vocabulary, begin + kBlock);
      // A tie with the worst kept candidate loses, since it comes later.
      const bool whole = end - begin == kBlock, full = heap.size() == count;
      if (whole && full && !some_above(row + begin, kBlock, before, heap.front().log_probability)) continue;
      for (int64_t token = begin; token < end; ++token) {
        const Candidate c{before + row[token], static_cast<int32_t>(b), static_cast<int32_t>(token)};
        if (token == forbidden || c.log_probability == kImpossible || (heap.size() == count && !(c < heap.front())))
          continue;
        if (heap.size() == count) {
          std::pop_heap(heap.begin(), heap.end());
          heap.pop_back();
        }
        heap.push_back(c);
        std::push_heap(heap.begin(), heap.end());
      }
    }
  }
  std::sort(heap.begin(), heap.end());
  return heap;
}

// Draws one continuation per beam; in the first step, which has a single beam, one for each of `draws`.
std::vector<Candidate> drawn_candidates(const Sentence& sentence, const Scores& scores, int64_t first_row, int64_t step,
                                        uint64_t draws, const Sampler& sampler, uint64_t stream) {
  const auto vocabulary = static_cast<size_t>(scores.logits.size(1));
  std::vector<Candidate> candidates;
  const auto add = [&](size_t b, uint64_t draw) {
    const int64_t row = first_row + sentence.beams[b].row;
    const std::span<const float> logits(scores.logits.data<float>() + row * scores.logits.size(1), vocabulary);
    const int32_t token = sampler(logits, stream, draw << 32 | static_cast<uint64_t>(step));
    const float log_p = logits[static_cast<size_t>(token)] - scores.lse.data<float>()[row];
    candidates.push_back({sentence.beams[b].log_probability + log_p, static_cast<int32_t>(b), token});
  };
  for (size_t b = 0; b < sentence.beams.size(); ++b) {
    if (sentence.beams[b].log_probability == kImpossible) continue;
    if (step > 0) add(b, sentence.beams[b].draw);
    for (uint64_t draw = 0; step == 0 && draw < draws; ++draw) add(b, draw);
  }
  return candidates;
}

// The continuation that the given translation has.
std::vector<Candidate> given_candidate(const Sentence& sentence, const Scores& scores, int64_t first_row,
                                       int32_t token) {
  const int64_t row = first_row + sentence.beams[0].row;
  const float log_p = scores.logits.data<float>()[row * scores.logits.size(1) + token] - scores.lse.data<float>()[row];
  return {{sentence.beams[0].log_probability + log_p, 0, token}};
}

// Assigns rows to a sentence's next beams; `parents` are the rows that they continue. A beam gets its parent's row
// unless a better beam has taken it, so that caches move little. Returns the parent of each row.
std::vector<int64_t> assign_rows(std::vector<Beam>& beams, const std::vector<int64_t>& parents) {
  std::vector<int64_t> parent_of(beams.size(), -1);
  std::vector<size_t> others;
  for (size_t i = 0; i < beams.size(); ++i) {
    int64_t& taken = parent_of[static_cast<size_t>(parents[i])];
    if (taken >= 0) {
      others.push_back(i);
    } else {
      beams[i].row = taken = parents[i];
    }
  }
  size_t row = 0;
  for (const size_t i : others) {
    while (parent_of[row] >= 0) ++row;
    parent_of[row] = parents[i];
    beams[i].row = static_cast<int64_t>(row);
  }
  return parent_of;
}

Tensor as_tensor(const std::vector<std::vector<float>>& rows) {
  if (rows.empty()) return {};
  const auto width = static_cast<int64_t>(rows[0].size());
  Tensor t = Tensor::empty({static_cast<int64_t>(rows.size()), width});
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].begin(), rows[i].end(), t.data<float>() + static_cast<int64_t>(i) * width);
  return t;
}

}  // namespace

// Keys and values of the sentences for each decoder layer. Sentences are encoded packed, to compute nothing for
// padding, which is filled with zeros.
std::vector<KVCache> Transformer::memory_of(const std::vector<std::vector<int32_t>>& sentences) const {
  if (source_bias_.defined()) {  // works with padded batches only
    const Variable memory = encode(TokenBatch::pad(sentences, config_.pad_id));
    std::vector<KVCache> caches;
    for (const auto& layer : decoder_->layers) caches.push_back(layer->multihead_attn.project_memory(memory));
    return caches;
  }
  const TokenBatch packed = TokenBatch::pack(sentences);
  const std::span<const int32_t> lengths = packed.lengths.span<int32_t>(), offsets = packed.offsets.span<int32_t>();
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const Variable memory = encode(packed);
  const auto padded = [&](const Tensor& rows) {  // (1, H, T, D) -> (B, H, longest, D)
    const Tensor to = Tensor::zeros({std::ssize(sentences), rows.size(1), longest, rows.size(3)}, rows.dtype());
    for (size_t i = 0; i < sentences.size(); ++i)
      to.select(0, static_cast<int64_t>(i))
          .slice(1, 0, lengths[i])
          .copy_from(rows.select(0, 0).slice(1, offsets[i], offsets[i + 1]));
    return to;
  };
  std::vector<KVCache> caches;
  for (const auto& layer : decoder_->layers) {
    const KVCache projected = layer->multihead_attn.project_memory(memory);
    caches.emplace_back(padded(projected.keys()), padded(projected.values()));
  }
  return caches;
}

// One model's part of a search: its caches for the open sentences.
class DecodingModel {
 public:
  /// `ended` sources; `rows` are those of the first full step.
  DecodingModel(const Transformer& model, const std::vector<std::vector<int32_t>>& ended, int64_t rows)
      : model_(model),
        self_(model.decoder_->layers.size()),
        cross_(model.memory_of(ended)),
        output_(model.expect_writing().output_weight().value(), model.logit_bias_,
                model.details_ ? model.details_->state_factor : 1, rows) {}

  /// Scores of the tokens after `last` (rows, 1), the tokens of step `step`. `record`, unless null, is that of the last
  /// layer's cross-attention: weights (sentences, heads, beams, source).
  Scores step(const Tensor& last, const Tensor& lengths, int64_t step, HeadRecord* record) {
    Variable x = model_.embed_target({last, {}}, step);
    const Tensor self_mask = model_.decoder_bias(step);
    for (size_t l = 0; l < self_.size(); ++l) {
      const bool last_layer = l + 1 == self_.size();
      x = model_.decoder_->layers[l]->step(x, self_[l], cross_[l], {lengths}, last_layer ? record : nullptr, self_mask);
    }
    if (model_.decoder_->norm) x = (*model_.decoder_->norm)(x);
    Scores scores = output_(x);
    check_finite("translate", "a logit", scores.logits, model_);
    return scores;
  }
  void keep_rows(const std::vector<int64_t>& rows) {
    for (KVCache& cache : self_) cache.reorder(rows);
  }
  void keep_sentences(const std::vector<int64_t>& sentences) {
    for (KVCache& cache : cross_) cache.reorder(sentences);
  }

 private:
  const Transformer& model_;
  std::vector<KVCache> self_, cross_;
  OutputLayer output_;
};

static void check_one_vocabulary(std::span<const Transformer* const> models) {
  if (models.empty()) throw ShapeError("translate: no model; give one at least");
  const TransformerConfig& first = models[0]->config();
  const auto pieces = [](const TransformerConfig& c) {
    return std::to_string(c.source_pieces()) + " source and " + std::to_string(c.vocab_size) +
           " target pieces (pad, bos and eos are " + std::to_string(c.pad_id) + ", " + std::to_string(c.bos_id) +
           " and " + std::to_string(c.eos_id) + ")";
  };
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i]->output_weight().dtype() == DType::f64)
      throw ShapeError("translate: the model must be float32; convert it with to()");
    if (pieces(models[i]->config()) != pieces(first))
      throw ShapeError("translate: model " + std::to_string(i + 1) + " has " + pieces(models[i]->config()) +
                       ", the first has " + pieces(first) + "; models that translate together need one vocabulary");
  }
}

// log of the mean of the models' probabilities.
static Scores mean_of(const std::vector<Scores>& all) {
  if (all.size() == 1) return all[0];
  const int64_t rows = all[0].logits.size(0), vocabulary = all[0].logits.size(1);
  const Scores mean{Tensor::empty({rows, vocabulary}), Tensor::zeros({rows})};
  const float log_count = std::log(static_cast<float>(all.size()));
  for_rows(rows, vocabulary, default_executor(), [&](int64_t begin, int64_t end) {
    std::vector<float> log_p(all.size());
    for (int64_t row = begin; row < end; ++row)
      for (int64_t token = 0; token < vocabulary; ++token) {
        for (size_t m = 0; m < all.size(); ++m)
          log_p[m] = all[m].logits.data<float>()[row * vocabulary + token] - all[m].lse.data<float>()[row];
        const float largest = *std::max_element(log_p.begin(), log_p.end());
        float sum = 0;
        for (const float x : log_p) sum += std::exp(x - largest);
        mean.logits.data<float>()[row * vocabulary + token] = largest + std::log(sum) - log_count;
      }
  });
  return mean;
}

std::vector<std::vector<Hypothesis>> Transformer::translate(const TokenBatch& source,
                                                            const BeamOptions& options) const {
  return heed::translate(std::array{this}, source, options);
}

std::vector<Hypothesis> Transformer::score(const TokenBatch& source, const TokenBatch& target,
                                           const BeamOptions& options) const {
  return heed::score(std::array{this}, source, target, options);
}

static void check(const BeamOptions& options, size_t sources, const TransformerConfig& config) {
  const int64_t beam = options.beam.value_or(BeamOptions::kBeam), most = options.sampling ? 1000 : beam;
  const double length_penalty = options.length_penalty.value_or(BeamOptions::kLengthPenalty);
  if (beam < 1 || beam > 1000) throw ShapeError("translate: beam " + std::to_string(beam) + " is not in 1..1000");
  if (options.n_best < 1 || options.n_best > most)
    throw ShapeError("translate: n_best " + std::to_string(options.n_best) + " is not in 1.." + std::to_string(most) +
                     (options.sampling ? "" : ", the beam"));
  if (options.max_length.value_or(0) < 0)
    throw ShapeError("translate: max_length " + std::to_string(*options.max_length) +
                     " is below 0; 0 means twice the source length plus 10");
  if (options.sampling) validate(*options.sampling, "translate");
  ScoreRules(options.rules, {}, config.vocab_size, "translate");
  const int32_t start = options.start.value_or(config.bos_id);
  if (start < 0 || start >= config.vocab_size)
    throw ShapeError("translate: start " + std::to_string(start) + " is not in 0.." +
                     std::to_string(config.vocab_size - 1));
  if (!std::isfinite(length_penalty))
    throw ShapeError("translate: length_penalty " + std::to_string(length_penalty) + " is not finite");
  if (!options.streams.empty() && options.streams.size() != sources)
    throw ShapeError("translate: " + std::to_string(options.streams.size()) + " streams for " +
                     std::to_string(sources) + " sources");
}

namespace {

// One search over some sentences, which runs steps until none is open.
class Search {
 public:
  // `given` translations are scored instead of searched.
  Search(std::span<const Transformer* const> models, const std::vector<std::vector<int32_t>>& source,
         const BeamOptions& options, const std::vector<std::vector<int32_t>>* given)
      : config_(models[0]->config()),
        options_(options),
        given_(given),
        complete_sources_(models[0]->details().has_value()),
        width_(static_cast<size_t>(given              ? 1
                                   : options.sampling ? options.n_best
                                                      : options.beam.value_or(BeamOptions::kBeam))),
        length_penalty_(options.length_penalty.value_or(BeamOptions::kLengthPenalty)),
        start_(options.start.value_or(config_.bos_id)),
        ends_(options.ends.value_or(std::vector{config_.eos_id})),
        rules_(rules_of(options, config_, complete_sources_), ends_, config_.vocab_size, "translate"),
        sources_(source),
        results_(source.size()) {
    const int32_t pad_id = config_.pad_id, eos_id = config_.eos_id;
    if (options.sampling) sampler_.emplace(*options.sampling, "translate");
    int64_t max_positions = config_.max_positions;
    for (const Transformer* model : models) max_positions = std::min(max_positions, model->config().max_positions);
    const int64_t max_length = options.max_length.value_or(0);
    for (size_t i = 0; i < source.size(); ++i) {
      if (!complete_sources_) sources_[i].push_back(eos_id);
      Sentence s{.index = i, .source_length = std::ssize(sources_[i])};
      s.max_length = max_length ? max_length : 2 * s.source_length + 10;
      s.max_length = std::min(s.max_length, max_positions - 1);
      if (given) s.max_length = std::ssize((*given)[i]) + 1;
      s.beams.push_back({.log_probability = 0});  // the other beams start from it
      open_.push_back(std::move(s));
    }
    for (const Transformer* model : models)
      decoding_.emplace_back(*model, sources_, std::ssize(source) * static_cast<int64_t>(width_));
    lengths_ = TokenBatch::pad(sources_, pad_id).lengths;
  }

  // Results of each sentence, best first.
  std::vector<std::vector<Hypothesis>> run() {
    for (; !open_.empty(); ++step_) {
      beams_ = static_cast<int64_t>(open_[0].beams.size());  // 1 in the first step; equal for all sentences
      const Scores scores = next_scores();
      if (!given_) apply_rules(scores);
      std::vector<size_t> going_on;
      for (size_t s = 0; s < open_.size(); ++s)
        if (advance(s, scores)) going_on.push_back(s);
      keep(going_on);
      if (!options_.on_step) continue;
      for (const Sentence& s : open_) options_.on_step(s.index, s.beams.front().ids);
    }
    return std::move(results_);
  }

 private:
  // heed's own models do not generate tokens that they were never trained to write.
  static TokenRules rules_of(const BeamOptions& options, const TransformerConfig& config, bool complete_sources) {
    TokenRules rules = options.rules;
    if (!options.sampling || complete_sources) return rules;
    rules.never.push_back(config.bos_id);
    if (config.pad_id != config.eos_id) rules.never.push_back(config.pad_id);
    return rules;
  }

  // Scores of the next token of each beam.
  Scores next_scores() {
    const Tensor last = Tensor::empty({std::ssize(open_) * beams_, 1}, DType::i32);
    int32_t* first = last.data<int32_t>();  // first beam of a sentence
    for (const Sentence& s : open_) {
      for (const Beam& beam : s.beams) first[beam.row] = beam.ids.empty() ? start_ : beam.ids.back();
      first += beams_;
    }
    records_.assign(decoding_.size(), {});
    std::vector<Scores> of_models;
    for (size_t m = 0; m < decoding_.size(); ++m)
      of_models.push_back(decoding_[m].step(last, lengths_, step_, options_.want_alignment ? &records_[m] : nullptr));
    return mean_of(of_models);
  }

  // Applies the rules to the scores of the next token of each beam.
  void apply_rules(const Scores& scores) const {
    const bool renormalize = options_.rules.renormalize.value_or(false);
    if (rules_.empty() && !renormalize) return;
    const auto vocabulary = static_cast<size_t>(scores.logits.size(1));
    const bool of_probabilities = rules_.depend_on_scale() && width_ > 1 && !sampler_;
    std::vector<int32_t> text;
    for (size_t s = 0; s < open_.size(); ++s)
      for (const Beam& beam : open_[s].beams) {
        if (beam.log_probability == kImpossible) continue;
        const int64_t row = static_cast<int64_t>(s) * beams_ + beam.row;
        const std::span<float> logits(scores.logits.data<float>() + row * scores.logits.size(1), vocabulary);
        float& lse = scores.lse.data<float>()[row];
        if (of_probabilities) {
          for (float& logit : logits) logit -= lse;
          lse = 0;
        }
        text.assign(1, start_);
        text.insert(text.end(), beam.ids.begin(), beam.ids.end());
        rules_.apply({.ids = text, .source = sources_[open_[s].index], .prompt = 1, .last = is_last_step(open_[s])},
                     logits);
        if (renormalize || (rules_.depend_on_scale() && !of_probabilities))
          lse = log_sum_exp<float>(logits.data(), scores.logits.size(1)).sum();
        if (std::isnan(lse)) lse = 0;  // the rules left no token
      }
  }

  bool is_last_step(const Sentence& sentence) const { return step_ + 1 >= sentence.max_length; }

  // The continuations of sentence `s`, best first.
  std::vector<Candidate> candidates_of(size_t s, const Scores& scores) const {
    const Sentence& sentence = open_[s];
    const int64_t first_row = static_cast<int64_t>(s) * beams_;
    if (given_) {
      const std::vector<int32_t>& ids = (*given_)[sentence.index];
      const int32_t token = is_last_step(sentence) ? end_of_given() : ids[static_cast<size_t>(step_)];
      return given_candidate(sentence, scores, first_row, token);
    }
    if (sampler_) {
      const uint64_t stream = options_.streams.empty() ? sentence.index : options_.streams[sentence.index];
      return drawn_candidates(sentence, scores, first_row, step_, static_cast<uint64_t>(options_.n_best), *sampler_,
                              stream);
    }
    // As many as there can be ends, plus the beam width, so that the beam stays full.
    const size_t count = (1 + std::max<size_t>(ends_.size(), 1)) * width_;
    return best_candidates(sentence, scores, first_row, count, complete_sources_ ? -1 : config_.pad_id);
  }

  int32_t end_of_given() const { return ends_.empty() ? config_.eos_id : ends_.front(); }

  // Whether a candidate is an end token, which is not part of the translation.
  bool is_end_token(const Sentence& sentence, const Candidate& c) const {
    if (given_) return is_last_step(sentence);
    return std::find(ends_.begin(), ends_.end(), c.token) != ends_.end();
  }

  // Whether a candidate ends the translation as its last token.
  bool is_last_token(const Sentence& sentence, const Candidate& c) const {
    if (is_last_step(sentence)) return true;
    if (!options_.is_end || given_) return false;
    std::vector<int32_t> ids = sentence.beams[static_cast<size_t>(c.beam)].ids;
    ids.push_back(c.token);
    return options_.is_end(ids);
  }

  // The beam that a candidate continues, with the candidate's probability and attention, but without its token.
  Beam extended(size_t s, const Candidate& c) const {
    const Sentence& sentence = open_[s];
    Beam next = sentence.beams[static_cast<size_t>(c.beam)];
    next.token_log_probabilities.push_back(c.log_probability - next.log_probability);
    next.log_probability = c.log_probability;
    if (!options_.want_alignment) return next;
    auto& row = next.attention.emplace_back(static_cast<size_t>(sentence.source_length), 0.f);
    for (const HeadRecord& record : records_) {
      const Tensor& w = record.weights;
      for (int64_t h = 0; h < w.size(1); ++h)
        for (size_t j = 0; j < row.size(); ++j)
          row[j] += w.at<float>(s, h, next.row, j) / static_cast<float>(w.size(1) * std::ssize(records_));
    }
    return next;
  }

  double score_of(const Beam& beam, int64_t length) const {
    return beam.log_probability / std::pow(static_cast<double>(length), length_penalty_);
  }

  Hypothesis finished(Beam beam, std::optional<int32_t> end) const {
    const double score = score_of(beam, step_ + 1);
    return {.ids = std::move(beam.ids),
            .log_probability = beam.log_probability,
            .score = score,
            .token_log_probabilities = std::move(beam.token_log_probabilities),
            .end = end,
            .alignment = as_tensor(beam.attention)};
  }

  // Whether there are `width_` finished translations and no open beam can improve them.
  bool is_settled(const Sentence& sentence, const std::vector<Beam>& next) const {
    if (sentence.finished.size() < width_) return false;
    const EarlyStopping early = options_.early_stopping.value_or(EarlyStopping::when_full);
    if (early == EarlyStopping::when_full || width_ == 1 || next.empty()) return true;
    std::vector<double> scores;
    for (const Hypothesis& done : sentence.finished) scores.push_back(done.score);
    std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(width_) - 1, scores.end(),
                     std::greater<>());
    // The length at which the best open beam would score best.
    const bool longest = early == EarlyStopping::never && length_penalty_ > 0;
    return score_of(next[0], longest ? sentence.max_length : step_ + 1) <= scores[width_ - 1];
  }

  // Runs one step of sentence `s`; returns whether it stays open.
  bool advance(size_t s, const Scores& scores) {
    Sentence& sentence = open_[s];
    const bool last_step = is_last_step(sentence);
    const std::vector<Candidate> candidates = candidates_of(s, scores);
    std::vector<Beam> next;
    std::vector<int64_t> parents;
    for (size_t rank = 0; rank < candidates.size() && next.size() < width_; ++rank) {
      const Candidate& c = candidates[rank];
      const bool end_token = is_end_token(sentence, c);
      if (end_token || is_last_token(sentence, c)) {
        if (rank >= width_) continue;  // an end counts only among the best `width_` candidates
        Beam done = extended(s, c);
        if (!end_token) done.ids.push_back(c.token);
        sentence.finished.push_back(finished(std::move(done), end_token ? std::optional(c.token) : std::nullopt));
      } else {
        parents.push_back(sentence.beams[static_cast<size_t>(c.beam)].row);
        next.push_back(extended(s, c));
        next.back().ids.push_back(c.token);
        if (step_ == 0) next.back().draw = rank;
      }
    }
    if (is_settled(sentence, next) || last_step || next.empty()) {
      auto& list = sentence.finished;
      if (list.empty()) throw ShapeError("translate: the rules forbid every token; allow at least one");
      std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
      if (list.size() > static_cast<size_t>(options_.n_best)) list.resize(static_cast<size_t>(options_.n_best));
      results_[sentence.index] = std::move(list);
      sentence.beams.clear();
      return false;
    }
    while (next.size() < width_) {  // fewer continuations than beams: a tiny vocabulary
      parents.push_back(parents.front());
      next.emplace_back();
      next.back().ids = next.front().ids;
    }
    sentence.parents = assign_rows(next, parents);
    sentence.beams = std::move(next);
    return true;
  }

  // Drops all other sentences. The last ones take the places of finished ones, so that caches move little.
  void keep(const std::vector<size_t>& going_on) {
    std::vector<Sentence> still_open;
    std::vector<int64_t> rows, sentences;
    for (size_t place = 0, last_open = going_on.size(); place < going_on.size(); ++place) {
      const size_t s = open_[place].beams.empty() ? going_on[--last_open] : place;
      for (const int64_t parent : open_[s].parents) rows.push_back(static_cast<int64_t>(s) * beams_ + parent);
      sentences.push_back(static_cast<int64_t>(s));
      still_open.push_back(std::move(open_[s]));
    }
    const bool some_left = still_open.size() != open_.size();
    open_ = std::move(still_open);
    if (open_.empty()) return;
    for (DecodingModel& model : decoding_) model.keep_rows(rows);
    if (!some_left) return;
    for (DecodingModel& model : decoding_) model.keep_sentences(sentences);
    const Tensor kept = Tensor::empty({std::ssize(sentences)}, DType::i32);
    for (size_t s = 0; s < sentences.size(); ++s) kept.data<int32_t>()[s] = lengths_.data<int32_t>()[sentences[s]];
    lengths_ = kept;
  }

  const TransformerConfig& config_;
  const BeamOptions& options_;
  const std::vector<std::vector<int32_t>>* given_;
  bool complete_sources_;
  size_t width_;  // beams of a sentence after the first step
  double length_penalty_;
  int32_t start_;
  std::vector<int32_t> ends_;
  ScoreRules rules_;
  std::optional<Sampler> sampler_;
  std::vector<std::vector<int32_t>> sources_;  // as the models read them
  std::deque<DecodingModel> decoding_;         // a deque, so that elements do not move
  std::vector<Sentence> open_;
  Tensor lengths_;  // of the open sentences' sources
  std::vector<std::vector<Hypothesis>> results_;
  // Of this step:
  int64_t step_ = 0, beams_ = 1;
  std::vector<HeadRecord> records_;
};

}  // namespace

static std::vector<std::vector<Hypothesis>> search(std::span<const Transformer* const> models,
                                                   const std::vector<std::vector<int32_t>>& source,
                                                   const BeamOptions& options,
                                                   const std::vector<std::vector<int32_t>>* given) {
  check_one_vocabulary(models);
  if (!given && !options.refused.empty()) throw UsageError("translate: " + options.refused);
  check(options, source.size(), models[0]->config());
  if (source.empty()) return {};
  const NoGrad no_grad;
  return Search(models, source, options, given).run();
}

std::vector<std::vector<Hypothesis>> translate(std::span<const Transformer* const> models, const TokenBatch& source,
                                               const BeamOptions& options) {
  return search(models, source.sentences(), options, nullptr);
}

std::vector<Hypothesis> score(std::span<const Transformer* const> models, const TokenBatch& sources,
                              const TokenBatch& targets, const BeamOptions& options) {
  const std::vector<std::vector<int32_t>> source = sources.sentences(), target = targets.sentences();
  if (source.size() != target.size())
    throw ShapeError("score: " + std::to_string(source.size()) + " sources and " + std::to_string(target.size()) +
                     " translations; each needs the other");
  for (const Transformer* model : models)
    for (size_t i = 0; i < target.size(); ++i) {
      const TransformerConfig& c = model->config();
      if (std::ssize(target[i]) >= c.max_positions)
        throw ShapeError("score: translation " + std::to_string(i) + " has " + std::to_string(target[i].size()) +
                         " tokens; the model takes " + std::to_string(c.max_positions - 1) + " and the end");
      for (const int32_t id : target[i])
        if (id < 0 || id >= c.vocab_size || id == c.eos_id)
          throw ShapeError("score: token " + std::to_string(id) + " of translation " + std::to_string(i) +
                           " is the end, or not in 0.." + std::to_string(c.vocab_size - 1));
    }
  std::vector<Hypothesis> scored;
  for (std::vector<Hypothesis>& one : search(models, source, options, &target)) scored.push_back(std::move(one.at(0)));
  return scored;
}

}  // namespace heed::inline v0
