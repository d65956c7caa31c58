// Predictions for masked words.
#include <algorithm>
#include <numeric>

#include "heed/text_reader.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

// The model's mask token and its id. MPNet's vocabulary also has BERT's mask, as an ordinary token.
std::pair<std::string, int32_t> mask_of(const Tokenizer& tokenizer) {
  if (const std::optional<std::string> token = tokenizer.named("mask_token"))
    if (const std::optional<int32_t> id = tokenizer.id_of(*token)) return {*token, *id};
  for (const char* token : {"[MASK]", "<mask>"})
    if (const std::optional<int32_t> id = tokenizer.id_of(token); id && tokenizer.special(*id)) return {token, *id};
  throw FormatError(
      "fill: the model's tokenizer has no special token [MASK] or <mask>; name the directory of another model");
}

// Replaces every `from` by `to`.
std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  size_t begin = 0;
  for (size_t at; (at = text.find(from, begin)) != std::string::npos; begin = at + from.size())
    result.append(text, begin, at - begin).append(to);
  return result.append(text, begin);
}

struct MaskedText {
  ReadRow row;
  std::vector<size_t> masks;  // places
};

MaskedText read(const StoredModel& model, const std::string& text, const FillOptions& options, size_t number) {
  const auto [mask, id] = mask_of(model.tokenizer());
  std::string whole = text;
  if (!options.mask.empty()) {
    whole = replaced(whole, options.mask, mask);
  } else if (text.find(mask) == std::string::npos) {  // the mask of another model, unless it is a text's own words
    for (const char* other : {"[MASK]", "<mask>"}) whole = replaced(whole, other, mask);
  }
  MaskedText result{.row = row_of(model.tokenizer(), whole, std::numeric_limits<int64_t>::max()), .masks = {}};
  for (size_t t = 0; t < result.row.ids.size(); ++t)
    if (result.row.ids[t] == id) result.masks.push_back(t);
  if (result.masks.empty()) return {};
  const std::string line = "line " + std::to_string(options.first_line + static_cast<int64_t>(number) + 1);
  if (const int64_t tokens = std::ssize(result.row.ids); tokens > longest_text(model))
    throw FormatError(line + " has " + std::to_string(tokens) + " tokens; the model takes at most " +
                      std::to_string(longest_text(model)));
  return result;
}

// The most likely tokens for scores (V), without texts.
FilledMask likeliest(const Tokenizer& tokenizer, std::span<const float> logits, int64_t top) {
  const std::vector<double> p = softmax(logits);
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::clamp<int64_t>(top, 1, std::ssize(order));
  const auto probability = [&](int32_t id) { return p[static_cast<size_t>(id)]; };
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    return probability(a) != probability(b) ? probability(a) > probability(b) : a < b;
  });
  FilledMask mask;
  for (auto id = order.begin(); id != end; ++id) mask.push_back({*id, tokenizer.written(*id), probability(*id), ""});
  return mask;
}

void add_texts(const Tokenizer& tokenizer, const MaskedText& text, std::vector<FilledMask>& masks) {
  std::vector<int32_t> ids = text.row.ids;
  for (size_t m = 0; m < masks.size(); ++m) ids[text.masks[m]] = masks[m].front().id;
  for (size_t m = 0; m < masks.size(); ++m) {
    for (MaskFilling& filling : masks[m]) {
      ids[text.masks[m]] = filling.id;
      filling.text = tokenizer.decode(ids);
    }
    ids[text.masks[m]] = masks[m].front().id;
  }
}

}  // namespace

std::vector<std::vector<FilledMask>> fill_masks(const StoredModel& model, const std::vector<std::string>& texts,
                                                const FillOptions& options) {
  const TextEncoder& encoder = expect_head(model, HeadTask::masked_words, "fill");
  if (options.top < 1) throw ShapeError("fill: top is " + std::to_string(options.top) + "; it must be 1 or more");
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<std::vector<size_t>> masks;
  std::vector<ReadRow> rows;
  for (size_t i = 0; i < texts.size(); ++i) {
    MaskedText text = read(model, texts[i], options, i);
    masks.push_back(std::move(text.masks));
    rows.push_back(std::move(text.row));
  }
  std::vector<std::vector<FilledMask>> results(texts.size());
  each_batch(model, rows, [&](const RowBatch& batch) {
    const Tensor states = encoder.hidden(batch.tokens, batch.types).value();
    for (size_t n = 0; n < batch.rows.size(); ++n) {
      const size_t i = batch.rows[n];
      const Tensor own = batch.part(states, n);
      // The head is large, so it only gets the states of masks.
      const Tensor hidden = Tensor::empty({1, std::ssize(masks[i]), own.size(1)}, own.dtype());
      for (size_t m = 0; m < masks[i].size(); ++m)
        hidden.select(0, 0)
            .select(0, static_cast<int64_t>(m))
            .copy_from(own.select(0, static_cast<int64_t>(masks[i][m])));
      const Tensor logits = encoder.apply_head(Variable(hidden), batch.tokens).value().to(DType::f32).contiguous();
      check_finite("fill", "a score", logits, model.module());
      for (size_t m = 0; m < masks[i].size(); ++m)
        results[i].push_back(
            likeliest(tokenizer, logits.select(0, 0).select(0, static_cast<int64_t>(m)).span<float>(), options.top));
    }
  });
  for (size_t i = 0; i < texts.size(); ++i) add_texts(tokenizer, {rows[i], masks[i]}, results[i]);
  return results;
}

}  // namespace heed::inline v0
