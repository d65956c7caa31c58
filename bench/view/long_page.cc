// long_page OUT [LAYERS HEADS TOKENS]: a page as large as the large ones get, of weights like those of a trained model,
// for measure_page.py.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "heed/view.h"

namespace {

using namespace heed;

// A softmax over scores that have what trained heads have: noise, a sink, a fall with distance, a neighbour, some
// tokens that stand out. How much of each differs from head to head.
void fill_head(const Tensor& weights, std::mt19937_64* random) {  // (L, L)
  const int64_t length = weights.size(0);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double noise = 0.3 + 1.7 * uniform(*random), fall = std::pow(uniform(*random), 3) * 0.3;
  const double sink = 8 * uniform(*random) - 2, neighbour = uniform(*random) < 0.3 ? 6 * uniform(*random) : 0;
  const int64_t offset = static_cast<int64_t>(uniform(*random) * 3) - 1;
  std::vector<double> standing_out(static_cast<size_t>(length));
  for (double& x : standing_out) x = uniform(*random) < 0.05 ? 2 * normal(*random) : 0;
  std::vector<double> row(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < length; ++j) {
      double score =
          noise * normal(*random) - fall * static_cast<double>(std::abs(i - j)) + standing_out[static_cast<size_t>(j)];
      if (j == 0) score += sink;
      if (j == i + offset) score += neighbour;
      sum += row[static_cast<size_t>(j)] = std::exp(score);
    }
    for (int64_t j = 0; j < length; ++j)
      weights.at<float>(i, j) = static_cast<float>(row[static_cast<size_t>(j)] / sum);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 5) {
    std::fprintf(stderr, "usage: long_page OUT [LAYERS HEADS TOKENS]\n");
    return 2;
  }
  const int64_t layers = argc == 5 ? std::atoll(argv[2]) : 12, heads = argc == 5 ? std::atoll(argv[3]) : 12;
  const int64_t tokens = argc == 5 ? std::atoll(argv[4]) : 512;
  std::mt19937_64 random(1);
  const Tensor weights = Tensor::empty({layers, heads, tokens, tokens});
  for (int64_t l = 0; l < layers; ++l)
    for (int64_t h = 0; h < heads; ++h) fill_head(weights.select(0, l).select(0, h), &random);
  PageGroup group;
  group.name = "Encoder";
  group.map.weights = weights;
  group.map.title = "Made-up weights of " + std::to_string(tokens) + " tokens";
  for (int64_t i = 0; i < tokens; ++i) {
    std::string label;
    for (uint64_t letters = 2 + random() % 7; letters > 0; --letters) label += static_cast<char>('a' + random() % 26);
    group.map.key_labels.push_back(label);
    group.key_words.push_back(i == 0 || random() % 4 ? static_cast<int32_t>(i) : group.key_words.back());
  }
  group.map.query_labels = group.map.key_labels;
  group.query_words = group.key_words;
  Page page;
  page.title = "A long page";
  page.groups.push_back(group);
  std::ofstream out(argv[1], std::ios::binary);
  out << render_html(page);
  return out.flush() ? 0 : 1;
}
