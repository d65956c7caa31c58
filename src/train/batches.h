// Which sentences train together, and in which order: a function of (data, options, epoch) and nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/train.h"

namespace heed::inline v0 {

using Batch = std::vector<int64_t>;  // indices of sentence pairs

/// 0, 1, ... : all pairs as they stand.
std::vector<int64_t> in_order(const SentencePairs& pairs);

/// Cuts `order` into batches of at most batch_tokens tokens on the longer side, end tokens included; a pair that is
/// longer is a batch of its own.
std::vector<Batch> cut_batches(const SentencePairs& pairs, const std::vector<int64_t>& order, int64_t batch_tokens);

/// The batches of epoch 1, 2, ...: all pairs shuffled, then cut. They are not sorted by length: packed batches cost the
/// same mixed, and each update sees sentences of all lengths.
std::vector<Batch> make_batches(const SentencePairs& pairs, const TrainOptions& options, int64_t epoch);

/// The pairs of a batch as the model takes them: bare.
struct BatchTokens {
  TokenBatch source, target;
  int64_t target_tokens = 0;  // end tokens included
  double flop = 0;
};
BatchTokens gather(const SentencePairs& pairs, const Batch& batch, const TransformerConfig& config);

/// Of what epoch 1, 2, ... draws beyond its order.
uint64_t epoch_seed(uint64_t seed, int64_t epoch);

/// Where in a text the pieces of a batch begin: `count` draws from [0, bound), a function of the arguments alone.
std::vector<int64_t> random_offsets(uint64_t seed, int64_t epoch, int64_t batch, int64_t count, int64_t bound);

/// Throws ShapeError for an id outside 0..vocab_size - 1.
void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size);

}  // namespace heed::inline v0
