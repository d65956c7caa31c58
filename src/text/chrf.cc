#include <algorithm>
#include <array>
#include <unordered_map>

#include "heed/text.h"
#include "text/metric.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr size_t max_order = 6;
constexpr double beta = 2;

using Counts = std::unordered_map<std::u32string_view, int64_t>;

Counts count_ngrams(std::u32string_view text, size_t order) {
  Counts counts;
  for (size_t i = 0; i + order <= text.size(); ++i) ++counts[text.substr(i, order)];
  return counts;
}

// Of a line, or summed over lines: n-grams of each order.
struct Statistics {
  std::array<int64_t, max_order> hypothesis{}, reference{}, match{};

  Statistics& operator+=(const Statistics& other) {
    for (size_t n = 0; n < max_order; ++n) {
      hypothesis[n] += other.hypothesis[n];
      reference[n] += other.reference[n];
      match[n] += other.match[n];
    }
    return *this;
  }
};

Statistics compare(const std::array<Counts, max_order>& hypothesis, const std::u32string& reference) {
  Statistics line;
  for (size_t n = 0; n < max_order; ++n) {
    // A line whose reference is too short for this order does not count.
    if (reference.size() <= n) continue;
    line.reference[n] = static_cast<int64_t>(reference.size() - n);
    const Counts there = count_ngrams(reference, n + 1);
    for (const auto& [ngram, count] : hypothesis[n]) {
      line.hypothesis[n] += count;
      if (const auto at = there.find(ngram); at != there.end()) line.match[n] += std::min(count, at->second);
    }
  }
  return line;
}

double score_of(const Statistics& all) {
  // Precision and recall are means over the orders that occur on both sides.
  double precision = 0;
  double recall = 0;
  int orders = 0;
  for (size_t n = 0; n < max_order; ++n) {
    if (all.hypothesis[n] == 0 || all.reference[n] == 0) continue;
    precision += static_cast<double>(all.match[n]) / static_cast<double>(all.hypothesis[n]);
    recall += static_cast<double>(all.match[n]) / static_cast<double>(all.reference[n]);
    ++orders;
  }
  if (orders == 0 || precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * ((1 + beta * beta) * precision * recall / (beta * beta * precision + recall));
}

}  // namespace

ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
               const MetricOptions& options) {
  check_metric_lines("chrf", hypotheses, references);
  const auto characters = [&](const std::string& text) {
    std::u32string codes = to_utf32(options.lowercase ? to_lower(text) : text);
    std::erase_if(codes, is_space);
    return codes;
  };
  std::vector<Statistics> lines;
  Statistics all;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::u32string hypothesis = characters(hypotheses[i]);
    std::array<Counts, max_order> counts;
    for (size_t n = 0; n < max_order; ++n) counts[n] = count_ngrams(hypothesis, n + 1);
    Statistics best;
    double best_score = -1;
    for (const std::vector<std::string>& reference : references) {
      const Statistics line = compare(counts, characters(reference[i]));
      const double score = references.size() > 1 ? score_of(line) : 0;
      if (score <= best_score) continue;
      best = line;
      best_score = score;
    }
    lines.push_back(best);
    all += best;
  }
  ChrfScore chrf;
  chrf.score = score_of(all);
  chrf.lowercase = options.lowercase;
  chrf.references = std::ssize(references);
  chrf.confidence = bootstrap(lines.size(), options, [&](std::span<const uint32_t> chosen) {
    Statistics sum;
    for (const uint32_t line : chosen) sum += lines[line];
    return score_of(sum);
  });
  return chrf;
}

ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options) {
  const std::vector<std::string> only(references.begin(), references.end());
  return chrf(hypotheses, std::span(&only, 1), options);
}

std::string ChrfScore::format() const { return "chrF2 = " + fixed(score, 2) + confidence_text(confidence); }

std::string ChrfScore::signature() const {
  return metric_signature(references, confidence, lowercase) + "|eff:yes|nc:6|nw:0|space:no|" + metric_version();
}

}  // namespace heed::inline v0
