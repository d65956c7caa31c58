// Classes of texts and of their tokens.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/text_reader.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

std::span<const float> row_of(const Tensor& matrix, int64_t n) {
  return {matrix.data<float>() + n * matrix.stride(0), static_cast<size_t>(matrix.size(1))};
}

// Converts to float32 and checks that all values are finite.
Tensor logits_of(const StoredModel& model, const TextEncoder& encoder, const RowBatch& batch) {
  Tensor logits = encoder.logits(batch.tokens, batch.types).value().to(DType::f32).contiguous();
  check_finite("classify", "a score", logits, model.module());
  return logits;
}

Tensor class_logits(const StoredModel& model, const RowBatch& batch) {
  if (const auto* encoder = model.get_if<TextEncoder>()) return logits_of(model, *encoder, batch);
  const auto* language_model = model.get_if<LanguageModel>();
  const Variable scores = language_model
                              ? language_model->class_scores(language_model->hidden(batch.tokens), batch.tokens)
                              : model.as<Transformer>().class_scores(batch.tokens);
  const Tensor logits = scores.value().to(DType::f32).contiguous();
  check_finite("classify", "a score", logits, model.module());
  return logits;
}

// Splits a label such as "B-PER" into its name and whether an entity begins.
struct Tag {
  explicit Tag(const std::string& label) : begins(label.starts_with("B-")), name(label) {
    if (begins || label.starts_with("I-")) name.erase(0, 2);
  }
  bool begins;
  std::string name;
};

std::vector<LabelledSpan> spans_of(const std::vector<LabelledToken>& tokens) {
  std::vector<LabelledSpan> spans;
  std::string last;  // label of the previous token, without its tag
  int64_t count = 0;
  for (const LabelledToken& token : tokens) {
    const Tag tag(token.label);
    if (token.label == "O") {
      last.clear();
      continue;
    }
    if (last.empty() || tag.name != last || tag.begins) {
      spans.push_back({tag.name, 0, token.bytes});
      count = 0;
    }
    LabelledSpan& span = spans.back();
    span.score = (span.score * static_cast<double>(count) + token.score) / static_cast<double>(count + 1);
    span.bytes.end = token.bytes.end;
    ++count;
    last = tag.name;
  }
  return spans;
}

}  // namespace

std::vector<ClassifiedText> classify_texts(const StoredModel& model, const std::vector<std::string>& texts,
                                           const std::vector<std::optional<std::string>>& second) {
  expect_task(model, HeadTask::text_classes, "classify");
  if (!second.empty() && second.size() != texts.size())
    throw ShapeError("classify: " + std::to_string(texts.size()) + " texts and " + std::to_string(second.size()) +
                     " second ones; give a place for each, or none");
  const PretrainedHead& head = model.pretrained().head;
  const int64_t longest = longest_text(model);
  const std::vector<ReadRow> rows = make_rows(texts.size(), [&](size_t i) {
    return second.empty() || !second[i] ? row_of(model.tokenizer(), texts[i], longest)
                                        : row_of_pair(model.tokenizer(), texts[i], *second[i], longest);
  });
  std::vector<ClassifiedText> results(texts.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].ids.empty()) throw FormatError("classify: a text has no tokens, so no class");
    results[i].cut = rows[i].cut;
  }
  each_batch(model, rows, [&](const RowBatch& batch) {
    const Tensor logits = class_logits(model, batch);
    for (size_t n = 0; n < batch.rows.size(); ++n)
      results[batch.rows[n]].labels = scored_labels(row_of(logits, static_cast<int64_t>(n)), head);
  });
  return results;
}

std::vector<LabelledText> label_tokens(const StoredModel& model, const std::vector<std::string>& texts) {
  const TextEncoder& encoder = expect_head(model, HeadTask::token_classes, "classify");
  const std::vector<std::string>& labels = model.pretrained().head.labels;
  const Tokenizer& tokenizer = model.tokenizer();
  const int64_t longest = longest_text(model);
  const std::vector<ReadRow> rows =
      make_rows(texts.size(), [&](size_t i) { return row_of(tokenizer, texts[i], longest); });
  std::vector<LabelledText> results(texts.size());
  for (size_t i = 0; i < rows.size(); ++i) results[i].cut = rows[i].cut;
  each_batch(model, rows, [&](const RowBatch& batch) {
    const Tensor logits = logits_of(model, encoder, batch);
    for (size_t n = 0; n < batch.rows.size(); ++n) {
      const ReadRow& row = rows[batch.rows[n]];
      LabelledText& result = results[batch.rows[n]];
      const Tensor own = batch.part(logits, n);
      for (size_t t = 0; t < row.ids.size(); ++t) {
        if (row.added[t]) continue;
        const std::vector<double> p = softmax(row_of(own, static_cast<int64_t>(t)));
        const auto best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
        result.tokens.push_back({tokenizer.token(row.ids[t]).value_or(""), labels[best], p[best], row.offsets[t]});
      }
      result.spans = spans_of(result.tokens);
    }
  });
  return results;
}

}  // namespace heed::inline v0
