#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/attended.h"

namespace heed::inline v0 {
namespace {

template <class Model>
LogitLens lens_of(const Model& model, const std::vector<Tensor>& states, const Variable& hidden, int64_t count) {
  constexpr int64_t kRows = 64;  // rows whose logits are in memory at once
  const NoGrad no_grad;
  LogitLens lens;
  for (size_t layer = 0; layer < states.size(); ++layer) {
    const bool last = layer + 1 == states.size();  // its states already went through the last norm
    const Tensor behind = last ? hidden.value() : states[layer + 1];
    auto& rows = lens.emplace_back();
    for (int64_t row = 0; row < behind.size(1); row += kRows) {
      const Variable part(behind.slice(1, row, std::min(row + kRows, behind.size(1))).contiguous());
      for (auto& likely : likeliest_tokens((last ? model.logits_of(part) : model.lens_logits(part)).value(), count))
        rows.push_back(std::move(likely));
    }
  }
  return lens;
}

}  // namespace

std::vector<std::vector<LikelyToken>> likeliest_tokens(const Tensor& logits, int64_t count) {
  if (logits.rank() != 3 || logits.size(0) != 1 || count < 1)
    throw ShapeError("likeliest_tokens: logits " + to_string(logits.shape()) + ", " + std::to_string(count) +
                     " of each row; pass (1, L, V) and 1 or more");
  const auto kept = static_cast<size_t>(std::min(count, logits.size(2)));
  std::vector<std::vector<LikelyToken>> all;
  for (int64_t i = 0; i < logits.size(1); ++i) {
    const Tensor row = logits.select(0, 0).select(0, i).to(DType::f64).contiguous();
    const std::span<const double> values = row.span<double>();
    const double largest = *std::max_element(values.begin(), values.end());
    double sum = 0;
    for (const double x : values) sum += std::exp(x - largest);
    std::vector<int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](int32_t a, int32_t b) {
                        const double x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
                        return x != y ? x > y : a < b;
                      });
    auto& likely = all.emplace_back();
    for (size_t n = 0; n < kept; ++n)
      likely.push_back({order[n], std::exp(values[static_cast<size_t>(order[n])] - largest) / sum});
  }
  return all;
}

LogitLens logit_lens(const SeenTranslation& seen, const StoredModel& model, int64_t count) {
  return lens_of(model.as<Transformer>(), seen.record.decoder_states, seen.hidden, count);
}

LogitLens logit_lens(const SeenText& seen, const StoredModel& model, int64_t count) {
  return lens_of(model.as<LanguageModel>(), seen.record.decoder_states, seen.hidden, count);
}

}  // namespace heed::inline v0
