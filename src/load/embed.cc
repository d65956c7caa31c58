// Vectors of texts, and the nearest among them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/text_reader.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

using Pooling = SentenceModules::Pooling;

// The tokenizer that sentence-transformers makes of do_lower_case. In transformers, Marian's and M2M100's tokenizers
// are written in Python and ignore it.
Tokenizer tokenizer_of(const StoredModel& model, const SentenceModules& modules) {
  const std::string& type = model.model_type();
  const bool lowercases = modules.lower_case && type != "marian" && type != "m2m_100";
  return lowercases ? model.source_tokenizer().lowercased() : model.source_tokenizer();
}

Variable last_states(const StoredModel& model, const RowBatch& batch) {
  if (const auto* encoder = model.get_if<TextEncoder>()) return encoder->hidden(batch.tokens, batch.types);
  if (const auto* transformer = model.get_if<Transformer>()) {
    // As in sentence-transformers, which loads the encoder alone of the other models.
    return model.model_type() == "bart" ? transformer->decode_again(batch.tokens) : transformer->encode(batch.tokens);
  }
  return model.as<LanguageModel>().hidden(batch.tokens);
}

// Throws UsageError if a vector of no states is not 0 in sentence-transformers: a maximum is -inf there, and a first
// state that of a padding token.
void check_none(Pooling how, bool has_first) {
  if (how == Pooling::maximum || (how == Pooling::first && !has_first))
    throw UsageError(std::string("embed: a text has no tokens, and pooling by ") +
                     (how == Pooling::maximum ? "maximum" : "first token") +
                     " gives no vector then; leave out texts that are empty");
}

// Pools the states (L, E) from row `begin` on into E numbers, which are 0 before. If there are none, the first state is
// that of the prompt, as in sentence-transformers.
void pool(const Tensor& states, int64_t begin, Pooling how, float* to) {
  const int64_t length = states.size(0), width = states.size(1);
  if (begin >= length) {
    check_none(how, /*has_first=*/length > 0);
    if (how == Pooling::first) std::copy_n(states.data<float>(), width, to);
    return;
  }
  const auto row = [&](int64_t l) { return states.data<float>() + l * states.stride(0); };
  if (how == Pooling::first) return void(std::copy_n(row(begin), width, to));
  if (how == Pooling::last) return void(std::copy_n(row(length - 1), width, to));
  if (how == Pooling::maximum) {
    std::copy_n(row(begin), width, to);
    for (int64_t l = begin + 1; l < length; ++l)
      for (int64_t e = 0; e < width; ++e) to[e] = std::max(to[e], row(l)[e]);
    return;
  }
  const bool weighted = how == Pooling::weighted_mean;  // weights 1, 2, ...
  std::vector<double> sum(static_cast<size_t>(width));
  double weights = 0;
  for (int64_t l = begin; l < length; ++l) {
    const double weight = weighted ? static_cast<double>(l + 1) : 1;
    weights += weight;
    for (int64_t e = 0; e < width; ++e) sum[static_cast<size_t>(e)] += weight * double{row(l)[e]};
  }
  const double by = how == Pooling::mean_sqrt_length ? std::sqrt(weights) : weights;
  for (int64_t e = 0; e < width; ++e) to[e] = static_cast<float>(sum[static_cast<size_t>(e)] / by);
}

// Scales each row of (..., E) to length 1; rows of zeros are unchanged.
Tensor normalised(const Tensor& rows) {
  const Tensor result = rows.to(DType::f32).clone();
  const int64_t width = result.size(-1);
  for (int64_t n = 0; n < result.size(0); ++n) {
    float* const row = result.data<float>() + n * width;
    const double squares =
        std::accumulate(row, row + width, 0.0, [](double sum, float x) { return sum + double{x} * double{x}; });
    if (squares > 0)
      for (int64_t e = 0; e < width; ++e) row[e] = static_cast<float>(row[e] / std::sqrt(squares));
  }
  return result;
}

// Negative distances (N, M) from rows (N, E) to rows (M, E): Euclidean, or sums of absolute differences.
Tensor negative_distances(const Tensor& from, const Tensor& to, bool euclidean) {
  const Tensor result = Tensor::empty({from.size(0), to.size(0)});
  for (int64_t n = 0; n < from.size(0); ++n)
    for (int64_t m = 0; m < to.size(0); ++m) {
      const std::span<const float> a = from.select(0, n).span<float>(), b = to.select(0, m).span<float>();
      double sum = 0;
      for (size_t e = 0; e < a.size(); ++e) {
        const double difference = std::abs(double{a[e]} - double{b[e]});
        sum += euclidean ? difference * difference : difference;
      }
      result.at<float>(n, m) = static_cast<float>(-(euclidean ? std::sqrt(sum) : sum));
    }
  return result;
}

int64_t width_of(const StoredModel& model) {
  if (const auto* encoder = model.get_if<TextEncoder>()) return encoder->config().d_model;
  if (const auto* transformer = model.get_if<Transformer>()) return transformer->config().d_model;
  return model.as<LanguageModel>().config().d_model;
}

void check_widths(const SentenceModules& modules, int64_t width) {
  for (const SentenceModules::Step& step : modules.steps) {
    if (!step.weight.defined()) continue;
    if (step.weight.size(1) != width)
      throw FormatError("embed: a Dense module takes vectors of " + std::to_string(step.weight.size(1)) +
                        " numbers, but the modules before it give " + std::to_string(width) +
                        "; they belong to different models");
    width = step.weight.size(0);
  }
}

Tensor after_steps(Tensor vectors, const SentenceModules& modules) {
  const NoGrad no_grad;
  for (const SentenceModules::Step& step : modules.steps) {
    if (!step.weight.defined()) {
      vectors = normalised(vectors);
      continue;
    }
    Variable y = functional::linear(Variable(vectors), Variable(step.weight),
                                    step.bias.defined() ? Variable(step.bias) : Variable());
    if (step.activation) y = functional::activation(*step.activation, y);
    vectors = y.value();
  }
  return vectors;
}

// The number of leading tokens that belong to the prompt and are not pooled. A special token at the end is not counted,
// if it is one of transformers' all_special_ids.
int64_t prompt_tokens(const Tokenizer& tokenizer, const SentenceModules& modules, int64_t longest) {
  if (modules.pools_prompt || modules.prompt.empty()) return 0;
  const ReadRow prompt = row_of(tokenizer, modules.prompt, longest);
  const bool ends = !prompt.ids.empty() && tokenizer.special_by_name(prompt.ids.back());
  return std::ssize(prompt.ids) - (ends ? 1 : 0);
}

}  // namespace

TextVectors embed_texts(const StoredModel& model, const std::vector<std::string>& texts,
                        const SentenceModules& modules) {
  const int64_t takes = longest_text(model);
  const int64_t longest = modules.longest > 0 ? std::min(takes, modules.longest) : takes;
  const bool own = model.is_own();  // heed's own models end a text with a token that is not pooled
  const int64_t width = width_of(model), pooled = width * std::ssize(modules.pooling);
  check_widths(modules, pooled);
  const Tokenizer tokenizer = tokenizer_of(model, modules);
  const int64_t of_prompt = prompt_tokens(tokenizer, modules, longest);
  const std::vector<ReadRow> rows =
      make_rows(texts.size(), [&](size_t i) { return row_of(tokenizer, modules.prompt + texts[i], longest); });
  TextVectors result{.vectors = Tensor::zeros({std::ssize(texts), pooled})};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cut) result.cut.push_back(i);
    if (rows[i].ids.empty())
      for (const Pooling how : modules.pooling) check_none(how, /*has_first=*/false);
  }
  each_batch(model, rows, [&](const RowBatch& batch) {
    const Tensor states = last_states(model, batch).value().to(DType::f32).contiguous();
    check_finite("embed", "what the model makes of a text", states, model.module());
    for (size_t n = 0; n < batch.rows.size(); ++n) {
      const ReadRow& row = rows[batch.rows[n]];
      const int64_t tokens = own ? std::count(row.added.begin(), row.added.end(), 0) : std::ssize(row.ids);
      float* const vector = result.vectors.data<float>() + static_cast<int64_t>(batch.rows[n]) * pooled;
      for (size_t p = 0; p < modules.pooling.size(); ++p)
        pool(batch.part(states, n).slice(0, 0, tokens), of_prompt, modules.pooling[p],
             vector + static_cast<int64_t>(p) * width);
    }
  });
  result.vectors = after_steps(std::move(result.vectors), modules);
  if (modules.width > 0 && modules.width < result.vectors.size(1))
    result.vectors = result.vectors.slice(1, 0, modules.width).contiguous();
  return result;
}

std::vector<std::vector<std::pair<size_t, double>>> nearest_rows(const Tensor& rows, const Tensor& others, int64_t top,
                                                                 Similarity by) {
  if (rows.rank() != 2 || others.rank() != 2 || rows.size(1) != others.size(1))
    throw ShapeError("nearest_rows: " + to_string(rows.shape()) + " and " + to_string(others.shape()) +
                     " are not two matrices with rows of the same length");
  constexpr int64_t kTogether = 256;
  const NoGrad no_grad;
  const bool cosine = by == Similarity::cosine;
  const Tensor from = cosine ? normalised(rows) : rows.to(DType::f32).contiguous();
  const Tensor to = cosine ? normalised(others) : others.to(DType::f32).contiguous();
  const int64_t count = to.size(0), keep = std::clamp<int64_t>(top, 0, count);
  std::vector<std::vector<std::pair<size_t, double>>> nearest(static_cast<size_t>(from.size(0)));
  if (keep == 0) return nearest;
  std::vector<size_t> order(static_cast<size_t>(count));
  for (int64_t begin = 0; begin < from.size(0); begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, from.size(0));
    const Tensor some = from.slice(0, begin, end);
    const Tensor found = by == Similarity::cosine || by == Similarity::dot
                             ? functional::linear(Variable(some), Variable(to)).value()
                             : negative_distances(some, to, by == Similarity::euclidean);
    for (int64_t n = begin; n < end; ++n) {
      const float* const row = found.data<float>() + (n - begin) * count;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + keep, order.end(),
                        [&](size_t a, size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
      for (int64_t k = 0; k < keep; ++k) {
        const size_t place = order[static_cast<size_t>(k)];
        nearest[static_cast<size_t>(n)].emplace_back(place,
                                                     cosine ? std::clamp<double>(row[place], -1, 1) : row[place]);
      }
    }
  }
  return nearest;
}

}  // namespace heed::inline v0
