#include <utility>

#include "heed/pages.h"

namespace heed::inline v0 {

Page page_with_changes(const GroupChanges& changes, const StoredModel& model, const std::function<SeenPage()>& look) {
  SeenPage seen = look();
  if (changes.empty()) return std::move(seen.page);
  const auto probabilities = [&] {
    return seen.predicted.probabilities ? seen.predicted.probabilities(model) : std::vector<double>();
  };
  const std::vector<double> was = probabilities();
  const ChangedHeads changed(changes, model.module());
  Page other = look().page;
  other.title = description_of(changes);
  compare_with(other, &seen.page);
  seen.page.predictions = predictions_of(seen.predicted.tokens, was, probabilities());
  return std::move(seen.page);
}

}  // namespace heed::inline v0
