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

// Fisher and Yates's, a function of (seed, epoch) only: std::shuffle would depend on the standard library.
void shuffle(std::vector<int64_t>& items, uint64_t seed, int64_t epoch) {
  const auto e = static_cast<uint32_t>(epoch);
  const PhiloxKey key = philox_key(seed);
  for (size_t i = items.size(); i > 1; --i) {
    const uint64_t draw = items.size() - i;
    const PhiloxCounter counter{static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), e, kBatchDomain};
    std::swap(items[i - 1], items[below(i, counter, key)]);
  }
}

}  // namespace

std::vector<int64_t> in_order(const SentencePairs& pairs) {
  std::vector<int64_t> order(pairs.source.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

std::vector<Batch> cut_batches(const SentencePairs& pairs, const std::vector<int64_t>& order, int64_t batch_tokens) {
  std::vector<Batch> batches;
  int64_t source = 0, target = 0;  // tokens of the last batch
  for (const int64_t i : order) {
    const auto more_source = static_cast<int64_t>(pairs.source[static_cast<size_t>(i)].size()) + 1;
    const auto more_target = static_cast<int64_t>(pairs.target[static_cast<size_t>(i)].size()) + 1;
    if (batches.empty() || std::max(source + more_source, target + more_target) > batch_tokens) {
      batches.emplace_back();
      source = target = 0;
    }
    batches.back().push_back(i);
    source += more_source;
    target += more_target;
  }
  return batches;
}

std::vector<Batch> make_batches(const SentencePairs& pairs, const TrainOptions& options, int64_t epoch) {
  std::vector<int64_t> order = in_order(pairs);
  shuffle(order, options.seed, epoch);
  return cut_batches(pairs, order, options.batch_tokens);
}

BatchTokens gather(const SentencePairs& pairs, const Batch& batch, const TransformerConfig& config) {
  BatchTokens tokens;
  std::vector<std::vector<int32_t>> source, target;
  for (const int64_t i : batch) {
    source.push_back(pairs.source[static_cast<size_t>(i)]);
    target.push_back(pairs.target[static_cast<size_t>(i)]);
    // With the end tokens.
    const int64_t source_length = std::ssize(source.back()) + 1, target_length = std::ssize(target.back()) + 1;
    tokens.target_tokens += target_length;
    tokens.flop += training_flop(config, source_length, target_length);
  }
  tokens.source = source;
  tokens.target = target;
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
