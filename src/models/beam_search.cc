// Beam search over the decoder with cached keys and values. All beams of all open sentences are one batch; sentences
// that are done leave it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "heed/models.h"
#include "kernels/chunks.h"
#include "kernels/linear.h"
#include "kernels/softmax.h"

namespace heed::inline v0 {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Beam {
  int64_t row = 0;  // among those of its sentence in the batch
  std::vector<int32_t> ids{};
  float log_probability = kImpossible;
  std::vector<std::vector<float>> attention{};  // one row over the source per step, where asked for
};

struct Sentence {
  size_t index = 0;  // in the caller's list
  int64_t source_length = 0, max_length = 0;
  std::vector<Beam> beams{};
  std::vector<int64_t> parents{};  // the row in the last step of each row
  std::vector<Hypothesis> finished{};
};

struct Candidate {
  float log_probability;
  int32_t beam, token;
  // Ties go to the earlier beam and token, so that nothing depends on the order of a sort.
  bool operator<(const Candidate& o) const {
    if (log_probability != o.log_probability) return log_probability > o.log_probability;
    return beam != o.beam ? beam < o.beam : token < o.token;
  }
};

constexpr int64_t kBlock = 16;  // tokens that are looked at together

// Whether one of `count` tokens is more probable than `least`. Without a branch, so that compilers make vectors of it.
bool some_above(const float* scores, int64_t count, float before, float least) {
  int above = 0;
  for (int64_t i = 0; i < count; ++i) above |= before + scores[i] > least;
  return above != 0;
}

// What the model says of the next token of each row: log p = logits - lse.
struct Scores {
  Tensor logits, lse;  // (rows, V), (rows)
};

// The last layer and the normalisation of its scores, for many steps.
class OutputLayer {
 public:
  /// `rows` are those of the first full step.
  OutputLayer(const Tensor& weight, int64_t rows) : weight_(weight) {
    constexpr int64_t kRepays = 24;  // rows
    if (rows < kRepays) return;
    with_weights<float>(weight_, [&](const auto* w) { packed_.emplace(w, weight_.size(1), weight_.size(0), ex_); });
  }
  Scores operator()(const Variable& hidden) const {
    const int64_t rows = hidden.size(0), width = weight_.size(1), vocabulary = weight_.size(0);
    const Scores scores{Tensor::empty({rows, vocabulary}), Tensor::empty({rows})};
    const Tensor x = hidden.value().contiguous();
    float* const logits = scores.logits.data<float>();
    if (packed_)
      linear_forward(x.data<float>(), *packed_, logits, rows, ex_);
    else
      with_weights<float>(weight_, [&](const auto* w) {
        linear_forward<float>(x.data<float>(), w, nullptr, logits, rows, width, vocabulary, ex_);
      });
    for_rows(rows, vocabulary, ex_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        scores.lse.data<float>()[row] = log_sum_exp<float>(logits + row * vocabulary, vocabulary);
    });
    return scores;
  }

 private:
  const Tensor& weight_;
  Executor& ex_ = default_executor();
  std::optional<PackedWeight<float>> packed_;
};

// The best `count` continuations of a sentence's beams, whose rows begin with `first_row`.
std::vector<Candidate> best_candidates(const Sentence& sentence, const Scores& scores, int64_t first_row, size_t count,
                                       int32_t forbidden) {
  const int64_t vocabulary = scores.logits.size(1);
  std::vector<Candidate> heap;  // the worst of the kept on top
  for (size_t b = 0; b < sentence.beams.size(); ++b) {
    if (sentence.beams[b].log_probability == kImpossible) continue;
    const int64_t row_of_beam = first_row + sentence.beams[b].row;
    const float before = sentence.beams[b].log_probability - scores.lse.data<float>()[row_of_beam];
    const float* row = scores.logits.data<float>() + row_of_beam * vocabulary;
    for (int64_t begin = 0; begin < vocabulary; begin += kBlock) {
      const int64_t end = std::min(vocabulary, begin + kBlock);
      // A tie with the worst that is kept loses: it comes later.
      const bool whole = end - begin == kBlock, full = heap.size() == count;
      if (whole && full && !some_above(row + begin, kBlock, before, heap.front().log_probability)) continue;
      for (int64_t token = begin; token < end; ++token) {
        const Candidate c{before + row[token], static_cast<int32_t>(b), static_cast<int32_t>(token)};
        if (token == forbidden || (heap.size() == count && !(c < heap.front()))) continue;
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

// Gives each of a sentence's next beams, which `parents` says the rows they go on from, its row: that of its parent
// where no better one has it, so that little is moved in the caches. The parent of each row.
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

// Keys and values of the sentences for each decoder layer. They are encoded packed, so that nothing is computed for
// padding; zeros stand in its place.
std::vector<KVCache> Transformer::memory_of(const std::vector<std::vector<int32_t>>& sentences) const {
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

std::vector<std::vector<Hypothesis>> Transformer::translate(const std::vector<std::vector<int32_t>>& source,
                                                            const BeamOptions& options) const {
  if (options.beam < 1 || options.beam > 1000)
    throw ShapeError("translate: beam " + std::to_string(options.beam) + " is not in 1..1000");
  if (options.n_best < 1 || options.n_best > options.beam)
    throw ShapeError("translate: n_best " + std::to_string(options.n_best) + " is not in 1.." +
                     std::to_string(options.beam) + ", the beam");
  std::vector<std::vector<Hypothesis>> results(source.size());
  if (source.empty()) return results;
  if (output_weight().dtype() == DType::f64)
    throw ShapeError("translate: the model must be float32; convert it with to()");
  const NoGrad no_grad;
  const auto width = static_cast<size_t>(options.beam);

  std::vector<std::vector<int32_t>> ended = source;
  std::vector<Sentence> open;
  for (size_t i = 0; i < source.size(); ++i) {
    ended[i].push_back(config_.eos_id);
    Sentence s{.index = i, .source_length = static_cast<int64_t>(ended[i].size())};
    s.max_length = options.max_length ? options.max_length : 2 * s.source_length + 10;
    s.max_length = std::min(s.max_length, config_.max_positions - 1);
    s.beams.push_back({.log_probability = 0});  // the others start from it
    open.push_back(std::move(s));
  }
  std::vector<KVCache> self(decoder_->layers.size()), cross = memory_of(ended);
  Tensor lengths = TokenBatch::pad(ended, config_.pad_id).lengths;

  const OutputLayer output(output_weight().value(), std::ssize(source) * options.beam);
  for (int64_t step = 0; !open.empty(); ++step) {
    const auto beams = static_cast<int64_t>(open[0].beams.size());  // 1 in the first step, as for all sentences
    const Tensor last = Tensor::empty({static_cast<int64_t>(open.size()) * beams, 1}, DType::i32);
    int32_t* first = last.data<int32_t>();  // of a sentence
    for (const Sentence& s : open) {
      for (const Beam& beam : s.beams) first[beam.row] = beam.ids.empty() ? config_.bos_id : beam.ids.back();
      first += beams;
    }
    Variable x = embed({last, {}}, target_embedding(), target_positions_, step);
    Tensor weights;  // (sentences, heads, beams, source) of the last layer
    for (size_t l = 0; l < self.size(); ++l) {
      MultiheadAttention::Call call{.key_lengths = lengths};
      if (options.want_alignment && l + 1 == self.size()) call.weights = &weights;
      x = decoder_->layers[l]->step(x, self[l], cross[l], call);
    }
    if (decoder_->norm) x = (*decoder_->norm)(x);
    const Scores scores = output(x);

    std::vector<size_t> going_on;
    for (size_t s = 0; s < open.size(); ++s) {
      Sentence& sentence = open[s];
      const bool last_step = step + 1 >= sentence.max_length;
      const int64_t first_row = static_cast<int64_t>(s) * beams;
      // Twice the beam: at most `beam` of them can be ends, so the beam stays full.
      const auto candidates = best_candidates(sentence, scores, first_row, 2 * width, config_.pad_id);
      const auto extended = [&](const Candidate& c) {
        Beam next = sentence.beams[static_cast<size_t>(c.beam)];
        next.log_probability = c.log_probability;
        if (options.want_alignment) {
          const int64_t heads = weights.size(1);
          auto& row = next.attention.emplace_back(static_cast<size_t>(sentence.source_length), 0.f);
          for (int64_t h = 0; h < heads; ++h)
            for (size_t j = 0; j < row.size(); ++j)
              row[j] += weights.at<float>(s, h, next.row, j) / static_cast<float>(heads);
        }
        return next;
      };
      std::vector<Beam> next;
      std::vector<int64_t> parents;
      for (size_t rank = 0; rank < candidates.size() && next.size() < width; ++rank) {
        const Candidate& c = candidates[rank];
        if (c.token == config_.eos_id || last_step) {
          if (rank >= width) continue;  // an end counts only among the beam's own best
          Beam done = extended(c);
          if (c.token != config_.eos_id) done.ids.push_back(c.token);
          const double length = static_cast<double>(step + 1);
          sentence.finished.push_back({.ids = std::move(done.ids),
                                       .log_probability = done.log_probability,
                                       .score = done.log_probability / std::pow(length, options.length_penalty),
                                       .alignment = as_tensor(done.attention)});
        } else {
          parents.push_back(sentence.beams[static_cast<size_t>(c.beam)].row);
          next.push_back(extended(c));
          next.back().ids.push_back(c.token);
        }
      }
      if (sentence.finished.size() >= width || last_step || next.empty()) {
        auto& list = sentence.finished;
        std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
        if (list.size() > static_cast<size_t>(options.n_best)) list.resize(static_cast<size_t>(options.n_best));
        results[sentence.index] = std::move(list);
        sentence.beams.clear();
        continue;
      }
      while (next.size() < width) {  // fewer continuations than beams: a tiny vocabulary
        parents.push_back(parents.front());
        next.emplace_back();
        next.back().ids = next.front().ids;
      }
      sentence.parents = assign_rows(next, parents);
      sentence.beams = std::move(next);
      going_on.push_back(s);
    }
    if (going_on.empty()) break;
    // The last sentences take the places of those that are done: little is moved in the caches.
    std::vector<Sentence> still_open;
    std::vector<int64_t> kept_rows, kept_sentences;
    for (size_t place = 0, last_open = going_on.size(); place < going_on.size(); ++place) {
      const size_t s = open[place].beams.empty() ? going_on[--last_open] : place;
      for (const int64_t parent : open[s].parents) kept_rows.push_back(static_cast<int64_t>(s) * beams + parent);
      kept_sentences.push_back(static_cast<int64_t>(s));
      still_open.push_back(std::move(open[s]));
    }
    const bool some_left = still_open.size() != open.size();
    open = std::move(still_open);
    for (KVCache& cache : self) cache.reorder(kept_rows);
    if (some_left) {
      for (KVCache& cache : cross) cache.reorder(kept_sentences);
      Tensor kept = Tensor::empty({static_cast<int64_t>(kept_sentences.size())}, DType::i32);
      for (size_t s = 0; s < kept_sentences.size(); ++s)
        kept.data<int32_t>()[s] = lengths.data<int32_t>()[kept_sentences[s]];
      lengths = kept;
    }
  }
  return results;
}

}  // namespace heed::inline v0
