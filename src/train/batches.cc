#include "train/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/philox.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

// A whole number in [0, bound) from the counter; unbiased within 2^-40 for any corpus that fits in memory.
uint64_t below(uint64_t bound, const PhiloxCounter& counter, const PhiloxKey& key) {
  const PhiloxCounter bits = philox4x32(counter, key);
  return (uint64_t{bits[0]} << 32 | bits[1]) % bound;
}

// Domains of their own: dropout counts streams from 0.
constexpr uint32_t kBatchDomain = 0x62617463u, kBlockDomain = 0x626c6f63u, kTextDomain = 0x74657874u,
                   kEpochDomain = 0x65706f63u;

// Fisher and Yates's, a function of (seed, epoch, domain, window) only: std::shuffle would depend on the standard
// library.
template <class T>
void shuffle(std::vector<T>& items, uint64_t seed, int64_t epoch, uint32_t domain, int64_t window = 0) {
  const auto e = static_cast<uint32_t>(epoch);
  const PhiloxKey key = philox_key(seed);
  for (size_t i = items.size(); i > 1; --i) {
    const PhiloxCounter counter{static_cast<uint32_t>(items.size() - i), static_cast<uint32_t>(window), e, domain};
    std::swap(items[i - 1], items[below(i, counter, key)]);
  }
}

}  // namespace

std::vector<SizedPair> sized(PairCorpus& pairs, int64_t begin, int64_t end) {
  std::vector<SizedPair> all;
  for (const PairCorpus::Lengths& tokens : pairs.lengths(begin, end)) all.push_back({begin + std::ssize(all), tokens});
  return all;
}

bool usable(const PairCorpus::Lengths& tokens, int64_t longest) {
  return std::min(tokens.source, tokens.target) > 0 && std::max(tokens.source, tokens.target) <= longest;
}

void keep_usable(std::vector<SizedPair>& pairs, int64_t longest) {
  std::erase_if(pairs, [&](const SizedPair& pair) { return !usable(pair.tokens, longest); });
}

std::vector<Batch> cut_batches(std::span<const SizedPair> pairs, int64_t batch_tokens) {
  std::vector<Batch> batches;
  int64_t source = 0, target = 0;  // tokens of the last batch
  for (const auto& [index, tokens] : pairs) {
    const int64_t more_source = tokens.source + 1, more_target = tokens.target + 1;
    if (batches.empty() || std::max(source + more_source, target + more_target) > batch_tokens) {
      batches.emplace_back();
      source = target = 0;
    }
    batches.back().push_back(index);
    source += more_source;
    target += more_target;
  }
  return batches;
}

int64_t Windows::count(int64_t pairs) const {
  return (pairs + pairs_of_block * blocks - 1) / (pairs_of_block * blocks);
}

EpochBatches::EpochBatches(PairCorpus& pairs, const TrainOptions& options, int64_t longest, int64_t epoch,
                           const Windows& windows)
    : pairs_(pairs),
      batch_tokens_(options.batch_tokens),
      longest_(longest),
      epoch_(epoch),
      seed_(options.seed),
      windows_(windows),
      blocks_(static_cast<size_t>((pairs.size() + windows.pairs_of_block - 1) / windows.pairs_of_block)) {
  std::iota(blocks_.begin(), blocks_.end(), int64_t{0});
  const int64_t count = windows_.count(pairs.size());
  if (count > 1) shuffle(blocks_, seed_, epoch_, kBlockDomain);
  for (int64_t window = 0; window < count; ++window) {
    enter(window);
    first_.push_back(first_.back() + std::ssize(batches_));
  }
}

void EpochBatches::enter(int64_t window) {
  const int64_t count = windows_.count(pairs_.size()), blocks = std::ssize(blocks_);
  std::vector<SizedPair> chosen;
  for (int64_t i = window * blocks / count; i < (window + 1) * blocks / count; ++i) {  // windows of about one size
    const int64_t begin = blocks_[static_cast<size_t>(i)] * windows_.pairs_of_block;
    std::vector<SizedPair> block = sized(pairs_, begin, std::min(begin + windows_.pairs_of_block, pairs_.size()));
    keep_usable(block, longest_);
    chosen.insert(chosen.end(), block.begin(), block.end());
  }
  shuffle(chosen, seed_, epoch_, kBatchDomain, window);
  batches_ = cut_batches(chosen, batch_tokens_);
  window_ = window;
}

const Batch& EpochBatches::operator[](int64_t batch) {
  const int64_t window = std::upper_bound(first_.begin(), first_.end(), batch) - first_.begin() - 1;
  if (window != window_) enter(window);
  return batches_[static_cast<size_t>(batch - first_[static_cast<size_t>(window)])];
}

PairCorpus::Lengths PairsInMemory::lengths_of(size_t index) const {
  return {std::ssize(pairs_.source[index]), std::ssize(pairs_.target[index])};
}

std::vector<PairCorpus::Lengths> PairsInMemory::lengths(int64_t begin, int64_t end) {
  std::vector<Lengths> all;
  for (int64_t i = begin; i < end; ++i) all.push_back(lengths_of(static_cast<size_t>(i)));
  return all;
}

PairCorpus::Pair PairsInMemory::read(int64_t index) {
  return {pairs_.source[static_cast<size_t>(index)], pairs_.target[static_cast<size_t>(index)]};
}

std::string PairsInMemory::fingerprint() const {
  Fingerprint print;
  for (const auto* side : {&pairs_.source, &pairs_.target})
    for (size_t i = 0; i < side->size(); ++i)
      if (usable(lengths_of(i), longest_)) print.add((*side)[i]);
  return print.text();
}

BatchTokens gather(PairCorpus& pairs, const Batch& batch, const Transformer& model) {
  const TransformerConfig& config = model.config();
  BatchTokens tokens;
  std::vector<std::vector<int32_t>> source, target;
  for (const int64_t i : batch) {
    PairCorpus::Pair pair = pairs.read(i);
    check_ids(pair.source, config.source_pieces());
    check_ids(pair.target, config.vocab_size);
    // With the end tokens.
    const int64_t source_length = std::ssize(pair.source) + 1, target_length = std::ssize(pair.target) + 1;
    tokens.target_tokens += target_length;
    if (!model.details()) tokens.flop += training_flop(config, source_length, target_length);
    source.push_back(std::move(pair.source));
    target.push_back(std::move(pair.target));
  }
  const bool padded = model.details() && model.details()->relative_buckets > 0;
  tokens.source = padded ? TokenBatch::pad(source, config.pad_id) : TokenBatch::pack(source);
  tokens.target = padded ? TokenBatch::pad(target, config.pad_id) : TokenBatch::pack(target);
  return tokens;
}

std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  shuffle(order, seed, epoch, kBatchDomain);
  return order;
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
