#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "heed/text.h"
#include "text/metric.h"
#include "text/tokenize_13a.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr size_t max_order = 4;

// Counts of the n-grams of one order; an n-gram is a piece of the tokenised line.
using Counts = std::unordered_map<std::string_view, int64_t>;

Counts count_ngrams(const std::vector<std::string_view>& tokens, size_t order) {
  Counts counts;
  for (size_t i = 0; i + order <= tokens.size(); ++i) {
    const char* begin = tokens[i].data();
    const std::string_view last = tokens[i + order - 1];
    ++counts[std::string_view(begin, last.data() + last.size() - begin)];
  }
  return counts;
}

// Of a line, or summed over lines.
struct Statistics {
  int64_t hypothesis_length = 0, reference_length = 0;
  std::array<int64_t, max_order> correct{}, total{};

  Statistics& operator+=(const Statistics& other) {
    hypothesis_length += other.hypothesis_length;
    reference_length += other.reference_length;
    for (size_t n = 0; n < max_order; ++n) {
      correct[n] += other.correct[n];
      total[n] += other.total[n];
    }
    return *this;
  }
};

// Of a line, its references tokenised as it is.
Statistics compare(const std::string& hypothesis_line, const std::vector<std::string>& reference_lines) {
  const std::vector<std::string_view> hypothesis = split_words(hypothesis_line);
  Statistics line;
  line.hypothesis_length = static_cast<int64_t>(hypothesis.size());
  std::vector<std::vector<std::string_view>> references;
  for (const std::string& reference : reference_lines) references.push_back(split_words(reference));
  const auto distance = [&](int64_t length) { return std::abs(length - line.hypothesis_length); };
  for (size_t r = 0; r < references.size(); ++r) {
    const auto length = static_cast<int64_t>(references[r].size());
    const bool closer =
        std::pair(distance(length), length) < std::pair(distance(line.reference_length), line.reference_length);
    if (r == 0 || closer) line.reference_length = length;
  }
  for (size_t order = 1; order <= max_order; ++order) {
    Counts there;
    for (const auto& reference : references)
      for (const auto& [ngram, count] : count_ngrams(reference, order)) {
        int64_t& most = there[ngram];
        most = std::max(most, count);
      }
    for (const auto& [ngram, count] : count_ngrams(hypothesis, order)) {
      line.total[order - 1] += count;
      // Clipped: an n-gram earns no more than it occurs in the reference.
      if (const auto at = there.find(ngram); at != there.end()) line.correct[order - 1] += std::min(count, at->second);
    }
  }
  return line;
}

BleuScore score_of(const Statistics& all) {
  BleuScore bleu;
  bleu.correct = all.correct;
  bleu.total = all.total;
  bleu.hypothesis_length = all.hypothesis_length;
  bleu.reference_length = all.reference_length;
  if (bleu.hypothesis_length < bleu.reference_length) {
    bleu.brevity_penalty =
        bleu.hypothesis_length == 0
            ? 0.0
            : std::exp(1 - static_cast<double>(bleu.reference_length) / static_cast<double>(bleu.hypothesis_length));
  }
  if (std::ranges::all_of(bleu.correct, [](int64_t n) { return n == 0; })) return bleu;

  double smoothing = 1;
  double log_sum = 0;
  for (size_t n = 0; n < max_order; ++n) {
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
  bleu.score = std::min(bleu.brevity_penalty * std::exp(log_sum / max_order), 100.0);  // 100 + 4e-14 for all right
  return bleu;
}

}  // namespace

void check_metric_lines(const char* metric, std::span<const std::string> hypotheses,
                        std::span<const std::vector<std::string>> references) {
  if (references.empty()) throw ShapeError(std::string(metric) + ": there are no references");
  for (const std::vector<std::string>& reference : references)
    if (hypotheses.size() != reference.size())
      throw ShapeError(std::string(metric) + ": " + std::to_string(hypotheses.size()) + " hypotheses but " +
                       std::to_string(reference.size()) + " references; line i of one belongs to line i of the other");
  if (hypotheses.empty()) throw ShapeError(std::string(metric) + ": there are no lines to score");
}

std::string fixed(double value, int digits) {
  // Scores are at most a few hundred; a ratio is at most a count of tokens.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, digits).ptr;
  return std::string(buffer, end);
}

std::string metric_version() { return "version:heed-" HEED_VERSION; }

BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
               const MetricOptions& options) {
  check_metric_lines("bleu", hypotheses, references);
  const auto tokenize = [&](const std::string& text) {
    const std::string cased = options.lowercase ? to_lower(text) : text;
    return tokenize_13a(trim_end(cased));
  };
  std::vector<Statistics> lines;
  Statistics all;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::string> tokenized;
    for (const std::vector<std::string>& reference : references) tokenized.push_back(tokenize(reference[i]));
    lines.push_back(compare(tokenize(hypotheses[i]), tokenized));
    all += lines.back();
  }
  BleuScore bleu = score_of(all);
  bleu.lowercase = options.lowercase;
  bleu.references = std::ssize(references);
  bleu.confidence = bootstrap(lines.size(), options, [&](std::span<const uint32_t> chosen) {
    Statistics sum;
    for (const uint32_t line : chosen) sum += lines[line];
    return score_of(sum).score;
  });
  return bleu;
}

BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
               const MetricOptions& options) {
  const std::vector<std::string> only(references.begin(), references.end());
  return bleu(hypotheses, std::span(&only, 1), options);
}

double BleuScore::ratio() const {
  return reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0.0;
}

std::string BleuScore::format() const {
  std::string line = "BLEU = " + fixed(score, 2) + confidence_text(confidence) + " ";
  for (size_t n = 0; n < max_order; ++n) line += (n > 0 ? "/" : "") + fixed(precisions[n], 1);
  return line + " (BP = " + fixed(brevity_penalty, 3) + " ratio = " + fixed(ratio(), 3) +
         " hyp_len = " + std::to_string(hypothesis_length) + " ref_len = " + std::to_string(reference_length) + ")";
}

std::string BleuScore::signature() const {
  return metric_signature(references, confidence, lowercase) + "|eff:no|tok:13a|smooth:exp|" + metric_version();
}

}  // namespace heed::inline v0
