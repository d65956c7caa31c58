#include "cli/translator.h"

#include <algorithm>
#include <numeric>

#include "heed/executor.h"

namespace heed::cli {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";  // begins a piece that begins a word

// The word of each piece: words are what spaces separate.
std::vector<size_t> words_of(const Vocabulary& vocabulary, const std::vector<int32_t>& ids) {
  std::vector<size_t> words;
  for (const int32_t id : ids) {
    const bool begins = vocabulary.piece(id).starts_with(kSpaceMark);
    words.push_back(words.empty() ? 0 : words.back() + begins);
  }
  return words;
}

// Each target word with the source word that its pieces attended to most.
std::vector<std::pair<int64_t, int64_t>> align(const Vocabulary& vocabulary, const std::vector<int32_t>& source,
                                               const std::vector<int32_t>& target,
                                               const Tensor& attention) {  // (target + 1, source + 1)
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const std::vector<size_t> source_words = words_of(vocabulary, source), target_words = words_of(vocabulary, target);
  if (source.empty()) return pairs;
  std::vector<double> mass;
  for (size_t i = 0; i < target.size(); ++i) {
    if (i == 0 || target_words[i] != target_words[i - 1]) mass.assign(source_words.back() + 1, 0);
    for (size_t j = 0; j < source.size(); ++j) mass[source_words[j]] += attention.at<float>(i, j);
    if (i + 1 == target.size() || target_words[i + 1] != target_words[i])
      pairs.emplace_back(std::max_element(mass.begin(), mass.end()) - mass.begin(), target_words[i]);
  }
  return pairs;
}

}  // namespace

std::vector<TranslatedLine> translate_lines(const Transformer& model, const Vocabulary& vocabulary,
                                            const std::vector<std::string>& lines, const BeamOptions& options,
                                            int64_t batch) {
  if (batch < 1) throw ShapeError("translate: batch " + std::to_string(batch) + " must be 1 or more");
  std::vector<TranslatedLine> results(lines.size());
  std::vector<std::vector<int32_t>> ids(lines.size());
  std::vector<size_t> order;
  const auto longest = static_cast<size_t>(model.config().max_positions - 1);  // the end token comes behind
  for (size_t i = 0; i < lines.size(); ++i) {
    ids[i] = vocabulary.encode(lines[i]);
    if (ids[i].size() > longest) {
      ids[i].resize(longest);
      results[i].cut = true;
    }
    if (ids[i].empty())
      results[i].best.resize(static_cast<size_t>(options.n_best));
    else
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a].size() < ids[b].size(); });
  // Batches are dealt to threads: they wait for each other less often than the parts of one batch. Long ones come
  // first.
  const size_t size = static_cast<size_t>(batch), batches = (order.size() + size - 1) / size;
  parallel_for(default_executor(), static_cast<int64_t>(batches), [&](int64_t tile) {
    const size_t begin = (batches - 1 - static_cast<size_t>(tile)) * size, end = std::min(order.size(), begin + size);
    std::vector<std::vector<int32_t>> sources;
    for (size_t i = begin; i < end; ++i) sources.push_back(ids[order[i]]);
    const auto translated = model.translate(sources, options);
    for (size_t i = begin; i < end; ++i)
      for (const Hypothesis& h : translated[i - begin]) {
        Translation t{.text = vocabulary.decode(h.ids), .score = h.score};
        if (options.want_alignment && h.alignment.defined())
          t.alignment = align(vocabulary, ids[order[i]], h.ids, h.alignment);
        results[order[i]].best.push_back(std::move(t));
      }
  });
  return results;
}

}  // namespace heed::cli
