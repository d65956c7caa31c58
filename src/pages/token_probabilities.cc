#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/models.h"
#include "heed/pages.h"

namespace heed::inline v0 {
namespace {

bool same_tokens(const Tokenizer& one, const Tokenizer& other, const std::vector<int32_t>& ids) {
  return &one == &other || (*std::max_element(ids.begin(), ids.end()) < other.size() &&
                            tokens_of(one, ids).labels == tokens_of(other, ids).labels);
}

// p of ids[i] by row i of logits (1, L, V).
std::vector<double> probabilities_of(const Variable& logits, const std::vector<int32_t>& ids) {
  const Tensor logs = functional::log_softmax(logits).value();
  std::vector<double> all;
  for (size_t i = 0; i < ids.size(); ++i)
    all.push_back(std::exp(static_cast<double>(logs.at<float>(0, static_cast<int64_t>(i), ids[i]))));
  return all;
}

}  // namespace

Predicted predicted_of(const SeenTranslation& seen, const StoredModel& model) {
  if (!model.as<Transformer>().has_logits()) return {};
  return {marked_labels(model.tokenizer(), seen.output),
          [&model, source = seen.source, input = seen.input,
           output = seen.output](const StoredModel& other) -> std::vector<double> {
            const Tokenizer &writes = model.tokenizer(), &other_writes = other.tokenizer();
            if (!same_tokens(model.source_tokenizer(), other.source_tokenizer(), source) ||
                !same_tokens(writes, other_writes, input) || !same_tokens(writes, other_writes, output))
              return {};
            const NoGrad no_grad;
            const auto& transformer = other.as<Transformer>();
            const int32_t pad = transformer.config().pad_id;
            return probabilities_of(transformer.logits(TokenBatch::pad({source}, pad), TokenBatch::pad({input}, pad)),
                                    output);
          }};
}

Predicted predicted_of(const SeenText& seen, const StoredModel& model) {
  if (!seen.record.encoder.empty() || !model.as<LanguageModel>().has_logits()) return {};
  std::vector<std::string> tokens = marked_labels(model.tokenizer(), seen.ids);
  tokens.erase(tokens.begin());
  return {std::move(tokens), [&model, ids = seen.ids](const StoredModel& other) -> std::vector<double> {
            if (!same_tokens(model.tokenizer(), other.tokenizer(), ids)) return {};
            const NoGrad no_grad;
            return probabilities_of(other.as<LanguageModel>().logits(TokenBatch::pad({ids}, 0)),
                                    {ids.begin() + 1, ids.end()});
          }};
}

std::vector<PagePrediction> predictions_of(const std::vector<std::string>& tokens, const std::vector<double>& first,
                                           const std::vector<double>& second) {
  std::vector<PagePrediction> all;
  for (size_t i = 0; i < tokens.size() && i < std::min(first.size(), second.size()); ++i)
    all.push_back({tokens[i], first[i], second[i]});
  return all;
}

}  // namespace heed::inline v0
