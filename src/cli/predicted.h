// What a model wrote, token by token, and how probable that is to another one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/attended.h"
#include "heed/load.h"
#include "heed/view.h"

namespace heed::cli {

/// Tokens as a reader wants them: a word's first plain, one that goes on with a word behind a dot. Where each is a
/// character there are no dots.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);
/// The same of tokens that are there.
std::vector<std::string> marked_labels(Tokens tokens);

/// The tokens that a translator wrote, or of a text those behind the first; of an encoder none.
struct Predicted {
  std::vector<std::string> tokens{};
  /// How probable each is to a model of the same kind; nothing where that has other tokens.
  std::function<std::vector<double>(const StoredModel&)> probabilities{};
};
/// `model` must outlive what is given.
Predicted predicted_of(const SeenTranslation& seen, const StoredModel& model);
Predicted predicted_of(const SeenText& seen, const StoredModel& model);

/// One for each token; none where either has none.
std::vector<PagePrediction> predictions_of(const std::vector<std::string>& tokens, const std::vector<double>& first,
                                           const std::vector<double>& second);

}  // namespace heed::cli
