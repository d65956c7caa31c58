// Which sentences train together, and in which order: a function of (data, options, epoch) and nothing else.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "heed/train.h"

namespace heed::inline v0 {

using Batch = std::vector<int64_t>;  // indices of sentence pairs

/// A pair of a corpus and its tokens, end tokens not counted.
struct SizedPair {
  int64_t index = 0;
  PairCorpus::Lengths tokens{};
};
/// Pairs [begin, end) as they stand.
std::vector<SizedPair> sized(PairCorpus& pairs, int64_t begin, int64_t end);
/// Whether a pair may be learned from: it is not empty, and has at most `longest` tokens on a side.
bool usable(const PairCorpus::Lengths& tokens, int64_t longest);
void keep_usable(std::vector<SizedPair>& pairs, int64_t longest);

/// Cuts pairs in their order into batches of at most batch_tokens tokens on the longer side, end tokens included; a
/// pair that is longer is a batch of its own.
std::vector<Batch> cut_batches(std::span<const SizedPair> pairs, int64_t batch_tokens);

/// What is shuffled together: so many blocks of pairs that stand behind each other in the corpus.
struct Windows {
  int64_t pairs_of_block = int64_t{1} << 14, blocks = 64;
  int64_t count(int64_t pairs) const;
};

/// The batches of epoch 1, 2, ...: all usable pairs shuffled, then cut, a window at a time. Blocks are dealt to windows
/// anew each epoch. Batches are not sorted by length: packed ones cost the same mixed, and each update sees sentences
/// of all lengths. Holds one window, and a number for each of the others: how many batches those have is found by the
/// lengths of their pairs, without reading them.
class EpochBatches {
 public:
  EpochBatches(PairCorpus& pairs, const TrainOptions& options, int64_t longest, int64_t epoch,
               const Windows& windows = {});
  int64_t size() const { return first_.back(); }
  /// Batches in order are fast; another window takes a moment.
  const Batch& operator[](int64_t batch);

 private:
  void enter(int64_t window);

  PairCorpus& pairs_;
  const int64_t batch_tokens_, longest_, epoch_;
  const uint64_t seed_;
  const Windows windows_;
  std::vector<int64_t> blocks_;    // in the order of the epoch
  std::vector<int64_t> first_{0};  // batch of each window, and behind the last one
  int64_t window_ = -1;
  std::vector<Batch> batches_;  // of that window
};

/// Pairs that lie in memory; the fingerprint is that of the usable ones.
class PairsInMemory final : public PairCorpus {
 public:
  explicit PairsInMemory(const SentencePairs& pairs, int64_t longest = std::numeric_limits<int64_t>::max())
      : pairs_(pairs), longest_(longest) {}
  int64_t size() const override { return std::ssize(pairs_.source); }
  std::vector<Lengths> lengths(int64_t begin, int64_t end) override;
  Pair read(int64_t index) override;
  std::string fingerprint() const override;

 private:
  Lengths lengths_of(size_t index) const;

  const SentencePairs& pairs_;
  const int64_t longest_;
};

/// The pairs of a batch as the model takes them: bare, or what is read of a model with details complete. Packed, but
/// for relative positions.
struct BatchTokens {
  TokenBatch source, target;
  int64_t target_tokens = 0;  // end tokens included
  double flop = 0;
};
/// Throws ShapeError for tokens that the model does not know.
BatchTokens gather(PairCorpus& pairs, const Batch& batch, const Transformer& model);

/// 0 .. count - 1 in an order of epoch 1, 2, ..., a function of the arguments alone.
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch);

/// Of what epoch 1, 2, ... draws beyond its order.
uint64_t epoch_seed(uint64_t seed, int64_t epoch);

/// Where in a text the pieces of a batch begin: `count` draws from [0, bound), a function of the arguments alone.
std::vector<int64_t> random_offsets(uint64_t seed, int64_t epoch, int64_t batch, int64_t count, int64_t bound);

/// Throws ShapeError for an id outside 0..vocab_size - 1.
void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size);

}  // namespace heed::inline v0
