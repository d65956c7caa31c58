#include <algorithm>
#include <array>
#include <unordered_map>

#include "heed/text.h"
#include "text/metric.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr std::size_t max_order = 6;
constexpr double beta = 2;

using Counts = std::unordered_map<std::u32string_view, std::int64_t>;

Counts count_ngrams(std::u32string_view text, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= text.size(); ++i) ++counts[text.substr(i, order)];
  return counts;
}

}  // namespace

ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options) {
  check_metric_lines("chrf", hypotheses, references);
  struct {
    std::int64_t hypothesis = 0;
    std::int64_t reference = 0;
    std::int64_t match = 0;
  } totals[max_order];
  const auto characters = [&](const std::string& text) {
    std::u32string codes = to_utf32(options.lowercase ? to_lower(text) : text);
    std::erase_if(codes, is_space);
    return codes;
  };
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const std::u32string hypothesis = characters(hypotheses[i]);
    const std::u32string reference = characters(references[i]);
    for (std::size_t order = 1; order <= max_order; ++order) {
      auto& total = totals[order - 1];
      // A line whose reference is too short for this order does not count.
      if (reference.size() < order) continue;
      total.reference += static_cast<std::int64_t>(reference.size() - order + 1);
      const Counts there = count_ngrams(reference, order);
      for (const auto& [ngram, count] : count_ngrams(hypothesis, order)) {
        total.hypothesis += count;
        if (const auto at = there.find(ngram); at != there.end()) total.match += std::min(count, at->second);
      }
    }
  }

  // Precision and recall are means over the orders that occur on both sides.
  double precision = 0;
  double recall = 0;
  int orders = 0;
  for (const auto& total : totals) {
    if (total.hypothesis == 0 || total.reference == 0) continue;
    precision += static_cast<double>(total.match) / static_cast<double>(total.hypothesis);
    recall += static_cast<double>(total.match) / static_cast<double>(total.reference);
    ++orders;
  }
  ChrfScore chrf;
  chrf.lowercase = options.lowercase;
  if (orders == 0 || precision + recall == 0) return chrf;
  precision /= orders;
  recall /= orders;
  chrf.score = 100 * ((1 + beta * beta) * precision * recall / (beta * beta * precision + recall));
  return chrf;
}

std::string ChrfScore::format() const { return "chrF2 = " + fixed(score, 2); }

std::string ChrfScore::signature() const {
  return std::string("nrefs:1|case:") + (lowercase ? "lc" : "mixed") + "|eff:yes|nc:6|nw:0|space:no|" +
         metric_version();
}

}  // namespace heed::inline v0
