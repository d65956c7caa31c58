#include "train/batches.h"

#include <algorithm>
#include <numeric>

#include "core/philox.h"

namespace heed::inline v0 {
namespace {

// A whole number in [0, bound) from the counter; unbiased within 2^-40 for any corpus that fits in memory.
uint64_t below(uint64_t bound, const PhiloxCounter& counter, const PhiloxKey& key) {
  const PhiloxCounter bits = philox4x32(counter, key);
  return (uint64_t{bits[0]} << 32 | bits[1]) % bound;
}

// Domains of their own: dropout counts streams from 0.
constexpr uint32_t kBatchDomain = 0x62617463u, kTextDomain = 0x74657874u, kEpochDomain = 0x65706f63u;

// Random indices that depend on (seed, epoch) only. std::shuffle would depend on the standard library.
class Shuffler {
 public:
  Shuffler(uint64_t seed, int64_t epoch) : key_(philox_key(seed)), epoch_(static_cast<uint64_t>(epoch)) {}
  template <class T>
  void operator()(std::vector<T>& items) {  // Fisher and Yates
    for (size_t i = items.size(); i > 1; --i, ++draw_) {
      const PhiloxCounter counter{static_cast<uint32_t>(draw_), static_cast<uint32_t>(draw_ >> 32),
                                  static_cast<uint32_t>(epoch_), kBatchDomain};
      std::swap(items[i - 1], items[below(i, counter, key_)]);
    }
  }

 private:
  PhiloxKey key_;
  uint64_t epoch_, draw_ = 0;
};

int64_t padded_length(const SentencePairs& pairs, int64_t i) {
  const auto at = static_cast<size_t>(i);
  return static_cast<int64_t>(std::max(pairs.source[at].size(), pairs.target[at].size())) + 1;
}

void sort_by_length(const SentencePairs& pairs, std::vector<int64_t>::iterator begin,
                    std::vector<int64_t>::iterator end) {
  std::stable_sort(begin, end, [&](int64_t a, int64_t b) {
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    if (pairs.target[x].size() != pairs.target[y].size()) return pairs.target[x].size() < pairs.target[y].size();
    return pairs.source[x].size() < pairs.source[y].size();
  });
}

void cut(const SentencePairs& pairs, std::vector<int64_t>::const_iterator begin,
         std::vector<int64_t>::const_iterator end, int64_t batch_tokens, std::vector<Batch>& batches) {
  Batch batch;
  int64_t longest = 0;
  for (auto it = begin; it != end; ++it) {
    const int64_t length = std::max(longest, padded_length(pairs, *it));
    if (!batch.empty() && length * static_cast<int64_t>(batch.size() + 1) > batch_tokens) {
      batches.push_back(std::move(batch));
      batch.clear();
      longest = padded_length(pairs, *it);
    } else {
      longest = length;
    }
    batch.push_back(*it);
  }
  if (!batch.empty()) batches.push_back(std::move(batch));
}

}  // namespace

std::vector<Batch> make_batches(const SentencePairs& pairs, const TrainOptions& options, int64_t epoch) {
  std::vector<int64_t> order(pairs.source.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  Shuffler shuffle(options.seed, epoch);
  shuffle(order);
  std::vector<Batch> batches;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(options.pool_size)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(options.pool_size));
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(end);
    sort_by_length(pairs, first, last);
    cut(pairs, first, last, options.batch_tokens, batches);
  }
  shuffle(batches);
  return batches;
}

std::vector<Batch> batches_by_length(const SentencePairs& pairs, int64_t batch_tokens) {
  std::vector<int64_t> order(pairs.source.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  sort_by_length(pairs, order.begin(), order.end());
  std::vector<Batch> batches;
  cut(pairs, order.begin(), order.end(), batch_tokens, batches);
  return batches;
}

BatchTokens gather(const SentencePairs& pairs, const Batch& batch, const TransformerConfig& config) {
  BatchTokens tokens;
  std::vector<std::vector<int32_t>> source;
  for (const int64_t i : batch) {
    source.push_back(pairs.source[static_cast<size_t>(i)]);
    source.back().push_back(config.eos_id);
    tokens.target.push_back(pairs.target[static_cast<size_t>(i)]);
    const auto target_length = static_cast<int64_t>(tokens.target.back().size()) + 1;
    tokens.target_tokens += target_length;
    tokens.flop += training_flop(config, static_cast<int64_t>(source.back().size()), target_length);
  }
  tokens.source = TokenBatch::pack(source);
  return tokens;
}

uint64_t epoch_seed(uint64_t seed, int64_t epoch) {
  const auto e = static_cast<uint64_t>(epoch);
  const PhiloxCounter bits = philox4x32(
      PhiloxCounter{static_cast<uint32_t>(e), static_cast<uint32_t>(e >> 32), 0, kEpochDomain}, philox_key(seed));
  return uint64_t{bits[0]} << 32 | bits[1];
}

std::vector<int64_t> random_offsets(uint64_t seed, int64_t epoch, int64_t batch, int64_t count, int64_t bound) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxCounter counter{static_cast<uint32_t>(i), static_cast<uint32_t>(batch), static_cast<uint32_t>(epoch),
                                kTextDomain};
    offsets.push_back(static_cast<int64_t>(below(static_cast<uint64_t>(bound), counter, philox_key(seed))));
  }
  return offsets;
}

}  // namespace heed::inline v0
