// Attention as a dictionary that is looked up softly: words stand on a circle, Spanish words are keys, English words
// are values, and PERRO asks. The word bag is seed 002's.
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "tools.h"

namespace {

using namespace heed;
using examples::largest_difference;
using Words = std::vector<std::string>;
using Embedding = std::map<std::string, std::array<double, 2>>;

const Words word_bag = {"EL", "PERRO", "TIENE", "EL", "PELO", "SUELTO", "THE", "DOG", "HAS", "LOOSE", "HAIR"};
const Words spanish = {"PERRO", "TIENE", "PELO"};
const Words english = {"DOG", "HAS", "HAIR"};
const std::vector<double> printed = {0.4116032614668716, 0.3755560066392266, 0.2128407318939017};  // by the seed

/// Word i of n stands at angle 2 pi i / n. A word that occurs twice keeps its later place.
Embedding circle_embedding(const Words& words) {
  Embedding embedding;
  for (size_t i = 0; i < words.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(words.size());
    embedding[words[i]] = {std::cos(angle), std::sin(angle)};
  }
  return embedding;
}

/// (1, 1, words, 2): one batch entry, one head.
Tensor embed(const Words& words, const Embedding& embedding) {
  std::vector<double> points;
  for (const std::string& word : words)
    points.insert(points.end(), embedding.at(word).begin(), embedding.at(word).end());
  return Tensor::from(points, {1, 1, static_cast<int64_t>(words.size()), 2});
}

/// The weights of one query word over `keys`, and the average of `values` under them.
AttentionResult look_up(const std::string& query, const Words& keys, const Words& values, double scale) {
  const Embedding embedding = circle_embedding(word_bag);
  return attention(embed({query}, embedding), embed(keys, embedding), embed(values, embedding),
                   {.scale = scale, .want_weights = true});
}

/// The value whose key got the largest weight.
std::string translation(const AttentionResult& result, const Words& values) {
  const std::span<double> weights = result.weights.span<double>();
  return values[static_cast<size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin())];
}

/// The word of `candidates` whose direction is closest to the output.
std::string nearest(const AttentionResult& result, const Words& candidates) {
  const Embedding embedding = circle_embedding(word_bag);
  const std::span<double> out = result.out.span<double>();
  const auto along = [&](const std::string& word) {
    const auto& [x, y] = embedding.at(word);
    return x * out[0] + y * out[1];
  };
  return *std::max_element(candidates.begin(), candidates.end(),
                           [&](const auto& a, const auto& b) { return along(a) < along(b); });
}

void report(const AttentionResult& result) {
  for (size_t i = 0; i < spanish.size(); ++i)
    std::printf("  %-5s -> %-4s  %.15f\n", spanish[i].c_str(), english[i].c_str(), result.weights.span<double>()[i]);
  std::printf("  PERRO translates to %s, the value of the largest weight\n", translation(result, english).c_str());
  // The weights are nearly even, so the average of the values lies between them.
  std::printf("  (the averaged value itself points to %s)\n\n", nearest(result, english).c_str());
}

}  // namespace

int main() {
  const AttentionResult seed = look_up("PERRO", spanish, english, 1 / std::sqrt(3));
  std::printf("Divided by sqrt(number of keys) = sqrt(3), as seed 002 computes:\n");
  report(seed);
  std::printf("The seed printed %.16f, %.16f, %.16f: %.1e apart\n\n", printed[0], printed[1], printed[2],
              largest_difference(seed.weights.reshape({3}), Tensor::from(printed, {3})));

  std::printf("Divided by sqrt(d_k) = sqrt(2), d_k the size of a key. This is the formula:\n");
  report(look_up("PERRO", spanish, english, 1 / std::sqrt(2)));

  const auto [x, y] = circle_embedding(word_bag).at("EL");
  std::printf("EL is in the bag twice, at 0 and 3; the later one wins: (%.4f, %.4f)\n", x, y);
  return 0;
}
