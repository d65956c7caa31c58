// Which sentences train together, and in which order: a function of (data, options, epoch) and nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/train.h"

namespace heed::inline v0 {

using Batch = std::vector<int64_t>;  // indices of sentence pairs

/// The batches of epoch 1, 2, ... in their order. Sentences are shuffled, pools of them sorted by length, cut into
/// batches of at most batch_tokens padded tokens on the longer side, and the batches shuffled.
std::vector<Batch> make_batches(const SentencePairs& pairs, const TrainOptions& options, int64_t epoch);

/// Batches for evaluation: all sentences, sorted by length.
std::vector<Batch> batches_by_length(const SentencePairs& pairs, int64_t batch_tokens);

/// The pairs of a batch as the model takes them: sources end with eos, targets are bare.
struct BatchTokens {
  TokenBatch source;
  std::vector<std::vector<int32_t>> target;
  int64_t target_tokens = 0;  // end tokens included
  double flop = 0;
};
BatchTokens gather(const SentencePairs& pairs, const Batch& batch, const TransformerConfig& config);

/// Of what epoch 1, 2, ... draws beyond its order.
uint64_t epoch_seed(uint64_t seed, int64_t epoch);

/// Where in a text the pieces of a batch begin: `count` draws from [0, bound), a function of the arguments alone.
std::vector<int64_t> random_offsets(uint64_t seed, int64_t epoch, int64_t batch, int64_t count, int64_t bound);

}  // namespace heed::inline v0
