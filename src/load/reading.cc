#include "load/reading.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heed/attended.h"
#include "heed/executor.h"
#include "heed/image_encoder.h"
#include "heed/speech_transformer.h"
#include "heed/text_reader.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kBatchTokens = 2048;

// The numbers of tokens of two texts that fit `room`, as the `tokenizers` package truncates longest first.
std::pair<int64_t, int64_t> kept_of(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  int64_t less = std::min(first, second);
  int64_t more = less > room ? less : std::max(less, room - less);
  if (less + more > room) {
    less = room / 2;
    more = less + room % 2;
  }
  return first <= second ? std::pair(less, more) : std::pair(more, less);
}

// The first `of_first` tokens belong to the first text.
ReadRow cut_row(Encoding tokens, int64_t of_first, int64_t longest, const TokenizerRules& rules) {
  ReadRow row{.ids = std::move(tokens.ids),
              .types = std::move(tokens.type_ids),
              .offsets = std::move(tokens.offsets),
              .added = std::move(tokens.added)};
  if (!rules.types) std::fill(row.types.begin(), row.types.end(), 0);
  if (std::ssize(row.ids) <= longest) return row;
  row.cut = true;
  const int64_t of_text = std::count(row.added.begin(), row.added.end(), 0),
                room = longest - (std::ssize(row.ids) - of_text);
  if (room < 1)
    throw ShapeError("the model takes " + std::to_string(longest) +
                     " tokens, which its special tokens fill; there is no room for a text");
  const int64_t of_second = of_text - of_first;
  const auto [first, second] = kept_of(of_first, of_second, room);
  const auto is_cut = [&](int64_t place, int64_t count, int64_t kept) {
    return rules.cuts_left ? place < count - kept : place >= kept;
  };
  size_t to = 0;
  int64_t at = 0;  // index among the tokens of both texts
  for (size_t from = 0; from < row.ids.size(); ++from) {
    if (!row.added[from]) {
      const int64_t place = at++;
      if (place < of_first ? is_cut(place, of_first, first) : is_cut(place - of_first, of_second, second)) continue;
    }
    row.ids[to] = row.ids[from];
    row.types[to] = row.types[from];
    row.offsets[to] = row.offsets[from];
    row.added[to++] = row.added[from];
  }
  row.ids.resize(to), row.types.resize(to), row.offsets.resize(to), row.added.resize(to);
  return row;
}

// Relative positions need padded batches.
bool packs(const StoredModel& model) {
  if (const auto* encoder = model.get_if<TextEncoder>()) return encoder->config().relative_buckets == 0;
  const auto* transformer = model.get_if<Transformer>();
  return !transformer || !transformer->details() || transformer->details()->relative_buckets == 0;
}

bool has_types(const StoredModel& model) {
  const auto* encoder = model.get_if<TextEncoder>();
  return encoder && encoder->config().types > 1;
}

Tensor types_of(const RowBatch& batch, const std::vector<ReadRow>& rows) {
  const Tensor types = Tensor::zeros(batch.tokens.ids.shape(), DType::i32);
  for (size_t n = 0; n < batch.rows.size(); ++n) {
    const std::vector<int32_t>& of_row = rows[batch.rows[n]].types;
    const Tensor part = batch.part(types, n);
    std::copy(of_row.begin(), of_row.end(), part.data<int32_t>());
  }
  return types;
}

// Long rows first, up to kBatchTokens together.
std::vector<std::vector<size_t>> batches_of(const std::vector<ReadRow>& rows) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].ids.empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rows[a].ids.size() > rows[b].ids.size(); });
  std::vector<std::vector<size_t>> batches;
  int64_t tokens = 0;
  for (const size_t i : order) {
    const int64_t more = std::ssize(rows[i].ids);
    if (batches.empty() || tokens + more > kBatchTokens) batches.emplace_back(), tokens = 0;
    batches.back().push_back(i);
    tokens += more;
  }
  return batches;
}

std::vector<double> scores_of(std::span<const float> logits, ClassScores how) {
  if (how == ClassScores::one_of_all) return softmax(logits);
  std::vector<double> scores(logits.begin(), logits.end());
  if (how == ClassScores::each)
    for (double& x : scores) x = 1 / (1 + std::exp(-x));
  return scores;
}

const char* task_of(HeadTask task) {
  switch (task) {
    case HeadTask::masked_words:
      return "finds masked words";
    case HeadTask::text_classes:
      return "classifies texts";
    case HeadTask::token_classes:
      return "classifies tokens";
    case HeadTask::answers:
      return "finds answers";
    case HeadTask::picture_classes:
      return "classifies pictures";
    case HeadTask::none:
      break;
  }
  return "has no head: it gives states and vectors";
}

}  // namespace

std::string what_it_does(const StoredModel& model) {
  if (const std::string& missing = model.pretrained().head.missing; !missing.empty())
    return "a " + model.model_type() + " " + missing + "; it gives states and vectors";
  const std::string type = "a " + model.model_type() + ", which ";
  if (model.get_if<TextEncoder>()) return type + task_of(model.pretrained().head.task);
  if (model.get_if<ImageEncoder>())
    return type +
           (model.pretrained().head.task == HeadTask::none ? "reads pictures, and has no head" : "classifies pictures");
  if (model.get_if<SpeechTransformer>()) return type + "writes down speech, of its spectrum";
  if (model.pretrained().head.task == HeadTask::text_classes) return type + task_of(HeadTask::text_classes);
  if (const auto* transformer = model.get_if<Transformer>(); transformer && !transformer->has_logits())
    return type + task_of(HeadTask::none);
  if (const auto* language_model = model.get_if<LanguageModel>();
      language_model && language_model->details() &&
      (!language_model->has_logits() || !language_model->details()->causal))
    return type + task_of(HeadTask::none);
  if (model.get_if<Transformer>()) return model.is_own() ? "a translator" : type + "translates";
  if (model.get_if<LanguageModel>()) return model.is_own() ? "a language model" : type + "continues texts";
  return "of a kind that heed does not read texts with";
}

int64_t longest_text(const StoredModel& model) {
  if (const auto* encoder = model.get_if<TextEncoder>()) return encoder->config().max_positions;
  if (const auto* transformer = model.get_if<Transformer>()) return transformer->config().max_positions;
  if (const auto* language_model = model.get_if<LanguageModel>()) return language_model->config().max_positions;
  throw UsageError("the model is " + what_it_does(model));
}

ReadRow row_of(const Tokenizer& tokenizer, const std::string& text, int64_t longest) {
  Encoding tokens = tokenizer.encode(text);
  const int64_t of_text = std::count(tokens.added.begin(), tokens.added.end(), 0);
  return cut_row(std::move(tokens), of_text, longest, tokenizer.rules());
}

ReadRow row_of_pair(const Tokenizer& tokenizer, const std::string& first, const std::string& second, int64_t longest) {
  return cut_row(tokenizer.encode_pair(first, second), std::ssize(tokenizer.encode(first, false).ids), longest,
                 tokenizer.rules());
}

std::vector<ReadRow> make_rows(size_t count, const std::function<ReadRow(size_t)>& make) {
  constexpr size_t kTogether = 64;
  std::vector<ReadRow> rows(count);
  parallel_for(default_executor(), static_cast<int64_t>((count + kTogether - 1) / kTogether), [&](int64_t tile) {
    const size_t begin = static_cast<size_t>(tile) * kTogether;
    for (size_t i = begin; i < std::min(begin + kTogether, count); ++i) rows[i] = make(i);
  });
  return rows;
}

Tensor RowBatch::part(const Tensor& of_all, size_t n) const {
  const auto b = static_cast<int64_t>(n);
  const int64_t length = tokens.lengths.at<int32_t>(b);
  if (!tokens.is_packed()) return of_all.select(0, b).slice(0, 0, length);
  const int64_t begin = tokens.offsets.at<int32_t>(b);
  return of_all.select(0, 0).slice(0, begin, begin + length);
}

void each_batch(const StoredModel& model, const std::vector<ReadRow>& rows,
                const std::function<void(const RowBatch&)>& take) {
  const bool pack = packs(model), types = has_types(model);
  const std::vector<std::vector<size_t>> batches = batches_of(rows);
  parallel_for(default_executor(), std::ssize(batches), [&](int64_t i) {
    const NoGrad no_grad;  // per thread
    std::vector<std::vector<int32_t>> ids;
    for (const size_t row : batches[static_cast<size_t>(i)]) ids.push_back(rows[row].ids);
    RowBatch batch{.rows = batches[static_cast<size_t>(i)],
                   .tokens = pack ? TokenBatch::pack(ids) : TokenBatch::pad(ids, 0),
                   .types = {}};
    if (types) batch.types = types_of(batch, rows);
    take(batch);
  });
}

void expect_task(const StoredModel& model, HeadTask task, const char* operation) {
  if (model.pretrained().head.task != task)
    throw UsageError(std::string(operation) + ": the model is " + what_it_does(model) + "; name one that " +
                     task_of(task));
}

const TextEncoder& expect_head(const StoredModel& model, HeadTask task, const char* operation) {
  expect_task(model, task, operation);
  return model.as<TextEncoder>();
}

std::vector<double> softmax(std::span<const float> scores) {
  const float most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> p;
  for (const float score : scores) p.push_back(std::exp(double{score} - most));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

std::vector<ScoredLabel> scored_labels(std::span<const float> logits, const PretrainedHead& head) {
  const std::vector<double> scores = scores_of(logits, head.scores);
  std::vector<ScoredLabel> labels;
  for (size_t c = 0; c < scores.size(); ++c) labels.push_back({head.labels[c], scores[c]});
  std::stable_sort(labels.begin(), labels.end(),
                   [](const ScoredLabel& a, const ScoredLabel& b) { return a.score > b.score; });
  return labels;
}

Tensor states_of(std::vector<Tensor> layers, const Variable& last) {
  layers.push_back(last.value());
  return stacked(layers).to(DType::f32);
}

void add_weights(const char* part, const std::vector<Tensor>& layers, Reading& reading) {
  for (size_t l = 0; l < layers.size(); ++l)
    reading.weights.emplace_back(part + ('_' + std::to_string(l)), layers[l].to(DType::f32).select(0, 0).contiguous());
}

}  // namespace heed::inline v0
