#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "heed/text.h"
#include "text/metric.h"
#include "text/tokenize_13a.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr std::size_t max_order = 4;

// Counts of the n-grams of one order; an n-gram is a piece of the tokenised line.
using Counts = std::unordered_map<std::string_view, std::int64_t>;

Counts count_ngrams(const std::vector<std::string_view>& tokens, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= tokens.size(); ++i) {
    const char* begin = tokens[i].data();
    const std::string_view last = tokens[i + order - 1];
    ++counts[std::string_view(begin, last.data() + last.size() - begin)];
  }
  return counts;
}

}  // namespace

void check_metric_lines(const char* metric, std::span<const std::string> hypotheses,
                        std::span<const std::string> references) {
  if (hypotheses.size() != references.size()) {
    throw ShapeError(std::string(metric) + ": " + std::to_string(hypotheses.size()) + " hypotheses but " +
                     std::to_string(references.size()) + " references; line i of one belongs to line i of the other");
  }
  if (hypotheses.empty()) throw ShapeError(std::string(metric) + ": there are no lines to score");
}

std::string fixed(double value, int digits) {
  // Scores are at most a few hundred; a ratio is at most a count of tokens.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, digits).ptr;
  return std::string(buffer, end);
}

std::string metric_version() { return "version:heed-" HEED_VERSION; }

BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options) {
  check_metric_lines("bleu", hypotheses, references);
  BleuScore bleu;
  bleu.lowercase = options.lowercase;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const auto tokenize = [&](const std::string& text) {
      const std::string cased = options.lowercase ? to_lower(text) : text;
      return tokenize_13a(trim_end(cased));
    };
    const std::string hypothesis_line = tokenize(hypotheses[i]);
    const std::string reference_line = tokenize(references[i]);
    const std::vector<std::string_view> hypothesis = split_words(hypothesis_line);
    const std::vector<std::string_view> reference = split_words(reference_line);
    bleu.hypothesis_length += static_cast<std::int64_t>(hypothesis.size());
    bleu.reference_length += static_cast<std::int64_t>(reference.size());
    for (std::size_t order = 1; order <= max_order; ++order) {
      const Counts there = count_ngrams(reference, order);
      for (const auto& [ngram, count] : count_ngrams(hypothesis, order)) {
        bleu.total[order - 1] += count;
        // Clipped: an n-gram earns no more than it occurs in the reference.
        if (const auto at = there.find(ngram); at != there.end()) {
          bleu.correct[order - 1] += std::min(count, at->second);
        }
      }
    }
  }

  if (bleu.hypothesis_length < bleu.reference_length) {
    bleu.brevity_penalty =
        bleu.hypothesis_length == 0
            ? 0.0
            : std::exp(1 - static_cast<double>(bleu.reference_length) / static_cast<double>(bleu.hypothesis_length));
  }
  if (std::ranges::all_of(bleu.correct, [](std::int64_t n) { return n == 0; })) return bleu;

  double smoothing = 1;
  double log_sum = 0;
  for (std::size_t n = 0; n < max_order; ++n) {
    if (bleu.total[n] > 0) {
      const auto total = static_cast<double>(bleu.total[n]);
      // Each order without a match counts as half the match of the one before (method 3 of Chen and Cherry 2014).
      if (bleu.correct[n] == 0) smoothing *= 2;
      bleu.precisions[n] =
          bleu.correct[n] == 0 ? 100.0 / (smoothing * total) : 100.0 * static_cast<double>(bleu.correct[n]) / total;
    }
    // No n-gram of this order at all: the score is 0.
    log_sum += bleu.precisions[n] > 0 ? std::log(bleu.precisions[n]) : -9999999999.0;
  }
  bleu.score = bleu.brevity_penalty * std::exp(log_sum / max_order);
  return bleu;
}

double BleuScore::ratio() const {
  return reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0.0;
}

std::string BleuScore::format() const {
  std::string line = "BLEU = " + fixed(score, 2) + " ";
  for (std::size_t n = 0; n < max_order; ++n) line += (n > 0 ? "/" : "") + fixed(precisions[n], 1);
  return line + " (BP = " + fixed(brevity_penalty, 3) + " ratio = " + fixed(ratio(), 3) +
         " hyp_len = " + std::to_string(hypothesis_length) + " ref_len = " + std::to_string(reference_length) + ")";
}

std::string BleuScore::signature() const {
  return std::string("nrefs:1|case:") + (lowercase ? "lc" : "mixed") + "|eff:no|tok:13a|smooth:exp|" + metric_version();
}

}  // namespace heed::inline v0
