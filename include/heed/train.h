// Training of a Transformer on sentence pairs or a LanguageModel on a text: validation, early stopping, averaged
// checkpoints, and a directory from which a run killed at any moment resumes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/attention_operator.h"
#include "heed/communicator.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "heed/split.h"

namespace heed::inline v0 {

class LowRankAdapters;

/// Token ids without bos and eos; source[i] belongs to target[i].
struct SentencePairs {
  std::vector<std::vector<int32_t>> source, target;
};

/// Sentence pairs for training that need not be in memory: a file (TokenPairs, heed/token_file.h), or a class of your
/// own.
class PairCorpus {
 public:
  struct Pair {
    std::vector<int32_t> source, target;  // token ids without bos and eos
  };
  struct Lengths {
    int64_t source = 0, target = 0;  // tokens
  };

  virtual ~PairCorpus() = default;
  /// Number of pairs; indices are 0..size() - 1.
  virtual int64_t size() const = 0;
  /// Lengths of pairs [begin, end). Called for all pairs at the start of training and of each epoch, some thousand at a
  /// time.
  virtual std::vector<Lengths> lengths(int64_t begin, int64_t end) = 0;
  /// Pair `index`. Access is random, but at any time limited to about 64 contiguous ranges.
  virtual Pair read(int64_t index) = 0;
  /// A short checksum. Training only resumes with the same pairs.
  virtual std::string fingerprint() const = 0;
};

/// The tokens of a text for training, which need not be in memory.
class TextCorpus {
 public:
  virtual ~TextCorpus() = default;
  /// Tokens.
  virtual int64_t size() const = 0;
  /// Tokens [begin, end); access is random.
  virtual std::vector<int32_t> read(int64_t begin, int64_t end) = 0;
  virtual std::string fingerprint() const = 0;
};

/// The measure of the best weights, also for patience.
enum class Criterion : uint8_t {
  loss,  // loss of the validation data
  bleu,  // TrainHooks::bleu; the loss decides between equals
};

struct TrainOptions {
  // Batches of sentence pairs, reshuffled each epoch. More than 2^20 pairs are shuffled in windows of 2^20, each made
  // of 64 contiguous ranges from random places. A batch holds at most batch_tokens tokens on its longer side, source or
  // target, including end tokens.
  int64_t batch_tokens = 4096;
  int64_t max_length = 200;    // pairs with more tokens on a side are left out
  double subword_dropout = 0;  // probability of leaving out a merge, see TrainHooks::encode; in [0, 1)

  // Batches of a text: `batch` pieces from random places, each of `block` tokens and the token after them. An epoch has
  // as many batches as are needed to hold the text once.
  int64_t batch = 12;
  int64_t block = 0;  // 0: the model's max_positions

  uint64_t seed = 1;  // of the shuffling or of the places in the text

  /// Batches per update. The gradient is that of the mean loss over the tokens of all batches. It is added in pairs (a
  /// binary tree), so that it does not depend on which rank computes a batch. The last update of an epoch may have
  /// fewer batches.
  int64_t accumulate = 1;

  /// Number of ranks that share each sequence of a text, each with a part of its tokens. A power of two that divides
  /// the number of ranks and is at most `block`. The weights depend on it, as on `batch`.
  int64_t context_ranks = 1;

  AdamW::Options adamw{};
  /// Schedule::linear ends with the training: its progress is the largest of those towards max_updates, max_epochs and
  /// max_minutes. With max_minutes the schedule, and so the bits of the weights, depend on the clock.
  LearningRate learning_rate{};
  double clip_norm = 1;          // largest norm of all gradients together; 0: no clipping
  double label_smoothing = 0.1;  // Vaswani et al. 2017, 5.4; 0 is usual for language models
  /// Alpha of R-Drop (Liang et al. 2021, eq. 4), see CrossEntropyOptions; 0: none. Each batch is computed twice, as one
  /// batch of twice the size; target_tokens and flop of the reports count both.
  double r_drop = 0;

  // Limits; training stops at the first one reached. 0: no limit.
  int64_t max_updates = 100000;
  int64_t max_epochs = 0;
  double max_minutes = 0;  // of training, including earlier runs in the same directory and the last validation
  /// The part of max_minutes that a new run has already used to prepare its data.
  double minutes_before = 0;
  int64_t patience = 10;  // validations in a row without better weights

  Criterion criterion = Criterion::loss;
  int64_t bleu_sentences = 0;  // validation pairs that TrainHooks::bleu translates at each validation; 0: none
  int64_t validate_every = 0;  // updates; 0: at the end of each epoch
  int64_t average = 8;         // last checkpoints (one per validation) whose mean is also validated; 1: none
  double save_minutes = 5;     // between saves of the state; validations always save
  int64_t save_every = 0;      // updates between saves; 0: by the clock only
  int64_t log_every = 100;     // updates
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const TrainOptions& options);

/// One update.
struct TrainStep {
  int64_t epoch = 0, update = 0;  // 1, 2, ...
  double loss = 0;                // per target token, with label smoothing
  double nll = 0;                 // per target token, without
  double done = -1;               // share of the training that is done, 0 to 1; below 0 without a limit
  double minutes_left = -1;       // until the first limit; below 0 without a limit
};

/// Means and sums since the last report.
struct TrainProgress {
  int64_t epoch = 0;   // 1, 2, ...
  int64_t update = 0;  // so far
  int64_t sentences = 0, target_tokens = 0;
  double loss = 0;  // per target token, with label smoothing
  double nll = 0;   // per target token, without
  double gradient_norm = 0;
  double learning_rate = 0;
  double words_per_second = 0;  // target tokens, including end tokens, without padding
  double gflops = 0;            // useful operations per second: see training_flop
  double minutes = 0;           // of training in total
  double minutes_left = -1;     // as TrainStep
};

struct Validation {
  int64_t epoch = 0, update = 0;
  double nll = 0;            // per target token, of the current weights
  double average_nll = -1;   // of the mean of the last checkpoints; below 0 if there is none
  double bleu = -1;          // 0 to 100, of the current weights; below 0 if not requested
  double average_bleu = -1;  // of the mean, with Criterion::bleu
  bool better = false;       // one of the two is the best so far and was saved as model.safetensors
  bool average_is_best = false;
  int64_t without_progress = 0;  // validations in a row
};

enum class StopReason : uint8_t { max_updates, max_epochs, max_minutes, patience, interrupted };

struct TrainResult {
  StopReason reason{};
  bool nothing_done = false;  // an earlier run had already finished
  int64_t epoch = 0, update = 0;
  double minutes = 0;
  double best_nll = 0;    // of model.safetensors
  double best_bleu = -1;  // of model.safetensors with Criterion::bleu, else below 0
  int64_t best_update = 0;
  bool average_is_best = false;  // model.safetensors is a mean of checkpoints
};

/// The result of TrainHooks::examine, added to a validation.
struct Examination {
  std::vector<std::pair<std::string, double>> figures{};  // for its line in the log
  std::vector<std::pair<std::string, FillFile>> files{};  // as TrainHooks::files; replaced together with the state
};

/// The saved state belongs to a training with other options or data.
class TrainingDiffers : public FormatError {
 public:
  using FormatError::FormatError;
};

/// Makes the attention between `ranks`, which have `rows` of every sequence.
using MakeAttentionOperator = std::function<AttentionOperator(Communicator& ranks, const Split& rows)>;

struct TrainHooks {
  /// Ranks that train the same model together; each has equal copies of the model, data and options. They share the
  /// batches of an update (TrainOptions::accumulate) and of the validation. nullptr: one process. Rank 0 reads and
  /// writes the directory, and its hooks decide; `bleu` and `encode` are called on every rank.
  Communicator* ranks = nullptr;
  /// For context_ranks above 1: mpi::attention_operator.
  MakeAttentionOperator attention{};
  /// Additional files (name, content), written with the first save of the run. Names must satisfy is_model_file().
  std::vector<std::pair<std::string, std::string>> files{};
  /// A file with the weights instead of model.safetensors, or model.safetensors in another layout. `write` gets the
  /// best weights by the names of the parameters. Written from the first save on; before the first validation it has
  /// the current weights.
  struct ModelFile {
    std::string name;
    std::function<void(FileWriter& file, const NamedTensors& parameters)> write;
  };
  std::optional<ModelFile> model_file{};
  /// Adapters of the model (heed/lora.h), trained instead of its parameters. Hooks that use the model must call apply()
  /// first.
  LowRankAdapters* adapters = nullptr;
  std::function<void(const TrainStep&)> step{};          // called after each update
  std::function<void(const TrainProgress&)> progress{};  // called every log_every updates
  std::function<void(const Validation&)> validation{};
  /// Called at each validation, before it is logged and saved, with the current weights, without dropout and under
  /// NoGrad. The state of default_generator() is restored afterwards, so that the final weights do not depend on it.
  std::function<Examination(const Validation&)> examine{};
  /// Returns the BLEU, 0 to 100, of the model's translations of this many validation pairs; needed for bleu_sentences
  /// above 0. Called as `examine` is; with Criterion::bleu also with the mean of the last checkpoints in the model.
  std::function<double(int64_t sentences)> bleu{};
  std::function<void(const std::string&)> message{};  // messages for the user
  std::function<bool()> stop{};                       // called after each update; true saves and ends the run
  /// Encodes the training pairs again with merges left out (Vocabulary::encode_with_dropout), once per epoch; needed
  /// for subword_dropout above 0. Must return as many pairs as `training` has and depend only on the arguments.
  std::function<SentencePairs(double dropout, uint64_t seed)> encode{};
  /// The clock for max_minutes, in seconds since any moment; default: the steady clock.
  std::function<double()> seconds{};
};

/// Trains `model` and writes to `directory`, which is created if missing:
///   model.safetensors            the best weights by validation loss, single or averaged
///   train.log.jsonl              one JSON object a report: type train, as TrainProgress; type validation, as
///                                Validation
///   training.json, training.safetensors, checkpoint-N.safetensors   the state, with checksums of these files and of
///                                config.json, vocabulary.txt and source_vocabulary.txt where they are there
/// All of them change at once (DirectoryTransaction, held until the end); read them with a DirectorySnapshot. Other
/// files in the directory are not touched. If the directory has a state, training resumes from it and ends with the
/// same weights, bit for bit, as an uninterrupted run: on the same type of machine, with any number of threads and
/// ranks, and unless the learning rate follows the clock. Dropout draws from default_generator(), which is part of the
/// state. Throws ShapeError for options, data or a model that do not fit, FormatError for a broken state,
/// TrainingDiffers for a state with other data or options, IoError, and TrainingError if the loss or a gradient is not
/// finite (earlier saves are kept).
TrainResult train(Transformer& model, const SentencePairs& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The same for pairs that need not be in memory, without subword_dropout. Memory use does not grow with their number.
TrainResult train(Transformer& model, PairCorpus& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The same for the tokens of a text. Validation reads its text in consecutive, non-overlapping blocks, so the first
/// tokens of a block have little context.
TrainResult train(LanguageModel& model, const std::vector<int32_t>& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});
TrainResult train(LanguageModel& model, TextCorpus& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// Throws FormatError if config.json or a vocabulary of a directory differs from those that its training state was
/// saved with, for programs that read them before train(). Accepts a directory without a training state, or with one
/// from before heed stored checksums.
void check_program_files(const std::string& directory);

/// Mean loss per target token without dropout or label smoothing.
double validation_nll(Transformer& model, const SentencePairs& pairs, int64_t batch_tokens);
/// Mean loss over all tokens of a text except the first, in blocks of `block` tokens (1 to max_positions). Throws
/// ShapeError.
double validation_nll(LanguageModel& model, const std::vector<int32_t>& text, int64_t block);

/// Minimum number of floating-point operations of one training step for a sentence pair of these lengths (tokens, with
/// begin or end), without padding: 2 for each multiply-add of matrix products and attention forward, twice that
/// backward. Embedding look-ups, norms, softmax, the optimiser and recomputation are not counted.
double training_flop(const TransformerConfig& config, int64_t source_length, int64_t target_length);
/// The same for a piece of text whose `length` tokens each predict the next.
double training_flop(const LanguageModelConfig& config, int64_t length);

}  // namespace heed::inline v0
