// Training a Transformer on sentence pairs or a LanguageModel on a text: validation, early stopping, averaged
// checkpoints, and a directory from which a run that was killed at any moment goes on as if nothing had happened.
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

/// Sentence pairs to learn from that need not lie in memory: a file (TokenPairs, heed/token_file.h), or your own.
class PairCorpus {
 public:
  struct Pair {
    std::vector<int32_t> source, target;  // token ids without bos and eos
  };
  struct Lengths {
    int64_t source = 0, target = 0;  // tokens
  };

  virtual ~PairCorpus() = default;
  /// Pairs; all calls below take 0..size() - 1.
  virtual int64_t size() const = 0;
  /// Of pairs [begin, end): all of them are asked for at the start and at the beginning of each epoch, some thousand at
  /// a time.
  virtual std::vector<Lengths> lengths(int64_t begin, int64_t end) = 0;
  /// From anywhere, but those of a while lie in some 64 stretches.
  virtual Pair read(int64_t index) = 0;
  /// A checksum in a few letters: a training goes on with the same pairs only.
  virtual std::string fingerprint() const = 0;
};

/// The tokens of a text to learn from, likewise.
class TextCorpus {
 public:
  virtual ~TextCorpus() = default;
  /// Tokens.
  virtual int64_t size() const = 0;
  /// Tokens [begin, end), from anywhere.
  virtual std::vector<int32_t> read(int64_t begin, int64_t end) = 0;
  virtual std::string fingerprint() const = 0;
};

/// What chooses the best weights, and what patience waits for.
enum class Criterion : uint8_t {
  loss,  // of the validation data
  bleu,  // TrainHooks::bleu; the loss decides between equals
};

struct TrainOptions {
  // Batches of sentence pairs, shuffled anew each epoch: all pairs together, or where there are more than 2^20, that
  // many at a time, which are 64 stretches from anywhere. A batch holds at most batch_tokens tokens on its longer side,
  // source or target, end tokens included.
  int64_t batch_tokens = 4096;
  int64_t max_length = 200;    // pairs with more tokens than this on a side are left out
  double subword_dropout = 0;  // merges left out of the pieces of an epoch, see TrainHooks::encode; in [0, 1)

  // Batches of a text: so many pieces of it, each of `block` tokens with the token behind it, from anywhere. An epoch
  // is as many batches as hold the tokens of the text once.
  int64_t batch = 12;
  int64_t block = 0;  // 0: the model's max_positions

  uint64_t seed = 1;  // of the shuffling, or of the places in the text

  /// Batches an update: its gradient is that of the mean loss over the tokens of all of them, added in pairs (a binary
  /// tree), so that it is the same wherever they are computed. The last update of an epoch may have fewer.
  int64_t accumulate = 1;

  /// Ranks that compute each sequence of a text together, each some of its tokens, so that none has the whole: a power
  /// of two that divides the number of ranks and is at most `block`. Weights depend on it as they do on `batch`.
  int64_t context_ranks = 1;

  AdamW::Options adamw{};
  /// Schedule::linear ends where the training does: its progress is the largest of those towards max_updates,
  /// max_epochs and max_minutes. With max_minutes it follows the clock, and so do the bits of the weights.
  LearningRate learning_rate{};
  double clip_norm = 1;          // largest norm of all gradients together; 0 for none
  double label_smoothing = 0.1;  // Vaswani et al. 2017, 5.4; 0 is usual for language models
  /// Alpha of R-Drop (Liang et al. 2021, eq. 4), see CrossEntropyOptions; 0 for none. Each batch goes through the model
  /// twice, as one of twice the size: target_tokens and flop of the reports count both.
  double r_drop = 0;

  // When to stop, whichever comes first; 0 for no such limit.
  int64_t max_updates = 100000;
  int64_t max_epochs = 0;
  double max_minutes = 0;  // of training, earlier runs on the same directory and the last validation included
  /// Of max_minutes: what a run that begins has spent on preparing its data.
  double minutes_before = 0;
  int64_t patience = 10;  // validations in a row without better weights

  Criterion criterion = Criterion::loss;
  int64_t bleu_sentences = 0;  // validation pairs that TrainHooks::bleu translates at each validation; 0: none
  int64_t validate_every = 0;  // updates; 0: at the end of each epoch
  int64_t average = 8;         // checkpoints (one a validation) whose mean is validated, too; 1 for none
  double save_minutes = 5;     // between saves of the state; validations always save
  int64_t save_every = 0;      // the same in updates; 0: by the clock only
  int64_t log_every = 100;     // updates
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const TrainOptions& options);

/// One update.
struct TrainStep {
  int64_t epoch = 0, update = 0;  // 1, 2, ...
  double loss = 0;                // per target token, with label smoothing
  double nll = 0;                 // per target token, without
  double done = -1;               // share of the training, 0 to 1, and
  double minutes_left = -1;       // what is left, by the limit that comes first; below 0 when there is none
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
  double words_per_second = 0;  // target tokens, end tokens included and padding not
  double gflops = 0;            // useful ones a second: see training_flop
  double minutes = 0;           // of training in all
  double minutes_left = -1;     // as TrainStep
};

struct Validation {
  int64_t epoch = 0, update = 0;
  double nll = 0;            // per target token, of the weights as they are
  double average_nll = -1;   // of the mean of the last checkpoints; below 0 where there is none
  double bleu = -1;          // 0 to 100, of the weights as they are; below 0 where it was not asked for
  double average_bleu = -1;  // of the mean, with Criterion::bleu
  bool better = false;       // one of the two is the best so far, and is model.safetensors now
  bool average_is_best = false;
  int64_t without_progress = 0;  // validations in a row
};

enum class StopReason : uint8_t { max_updates, max_epochs, max_minutes, patience, interrupted };

struct TrainResult {
  StopReason reason{};
  bool nothing_done = false;  // an earlier run had finished already
  int64_t epoch = 0, update = 0;
  double minutes = 0;
  double best_nll = 0;    // of model.safetensors
  double best_bleu = -1;  // likewise with Criterion::bleu, else below 0
  int64_t best_update = 0;
  bool average_is_best = false;  // model.safetensors is a mean of checkpoints
};

/// What TrainHooks::examine adds to a validation.
struct Examination {
  std::vector<std::pair<std::string, double>> figures{};  // of its line in the log
  std::vector<std::pair<std::string, FillFile>> files{};  // as TrainHooks::files; they change with the state
};

/// A state that belongs to a training with other options or data.
class TrainingDiffers : public FormatError {
 public:
  using FormatError::FormatError;
};

/// Attention between `ranks`, which have `rows` of every sequence.
using MakeAttentionOperator = std::function<AttentionOperator(Communicator& ranks, const Split& rows)>;

struct TrainHooks {
  /// Others that train the same model, each with a model, data and options of its own that are equal: batches of an
  /// update (TrainOptions::accumulate) and of the validation are dealt over them. nullptr: nobody. Rank 0 reads and
  /// writes the directory, and its hooks decide; `bleu` and `encode` are asked on every rank.
  Communicator* ranks = nullptr;
  /// For context_ranks above 1: mpi::attention_operator.
  MakeAttentionOperator attention{};
  /// Of the directory: written with the first save of the run. Names must satisfy is_model_file().
  std::vector<std::pair<std::string, std::string>> files{};
  /// What holds the weights instead of model.safetensors, or is it in another layout: `write` gets the best ones by the
  /// names of the parameters. It is there from the first save on, with the weights of that until a validation.
  struct ModelFile {
    std::string name;
    std::function<void(FileWriter& file, const NamedTensors& parameters)> write;
  };
  std::optional<ModelFile> model_file{};
  /// Of the model (heed/lora.h): they are trained instead of its parameters. Hooks that ask the model call apply()
  /// before.
  LowRankAdapters* adapters = nullptr;
  std::function<void(const TrainStep&)> step{};          // each update
  std::function<void(const TrainProgress&)> progress{};  // each log_every updates
  std::function<void(const Validation&)> validation{};
  /// Asked at each validation, before it is logged and saved; the model has the weights as they are, dropout is off and
  /// nothing is recorded on the tape. What it draws from default_generator() is given back, so that the weights at the
  /// end do not depend on it.
  std::function<Examination(const Validation&)> examine{};
  /// BLEU, 0 to 100, of so many validation pairs translated by the model: for bleu_sentences above 0. Asked under the
  /// conditions of `examine`, with Criterion::bleu also with the mean of the last checkpoints in the model.
  std::function<double(int64_t sentences)> bleu{};
  std::function<void(const std::string&)> message{};  // what a person may want to know
  std::function<bool()> stop{};                       // asked after each update; true saves and leaves
  /// The training pairs anew with merges left out (Vocabulary::encode_with_dropout), once an epoch: for
  /// subword_dropout above 0. As many as `training` has, a function of the arguments alone.
  std::function<SentencePairs(double dropout, uint64_t seed)> encode{};
  /// Seconds since any moment, which max_minutes counts; empty: those of the steady clock.
  std::function<double()> seconds{};
};

/// Trains `model` and keeps in `directory`, which is made where it is missing:
///   model.safetensors            the best weights by validation loss, single or averaged
///   train.log.jsonl              one JSON object a report: type train, as TrainProgress; type validation, as
///                                Validation
///   training.json, training.safetensors, checkpoint-N.safetensors   the state, with checksums of these files and of
///                                config.json, vocabulary.txt and source_vocabulary.txt where they are there
/// All of them change at once (DirectoryTransaction, held until the end); read them with a DirectorySnapshot. Other
/// files in the directory are left alone. Where it holds a state, training goes on from it, and ends with the same
/// weights, bit for bit, as a run that was never stopped: on the same type of machine, with any number of threads and
/// of ranks, and unless the learning rate follows the clock. Dropout draws from default_generator(), which is part of
/// the state. Throws ShapeError for options, data or a model that do not fit; FormatError for a state that is broken,
/// TrainingDiffers for that of other data or options; IoError; TrainingError when the loss or a gradient is not finite
/// (what was saved before stays).
TrainResult train(Transformer& model, const SentencePairs& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The same for pairs that need not lie in memory, without subword_dropout: what is kept of them in memory does not
/// grow with their number.
TrainResult train(Transformer& model, PairCorpus& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The same for the tokens of a text. Validation reads its text in blocks that follow each other without overlapping,
/// so the first tokens of a block have little before them.
TrainResult train(LanguageModel& model, const std::vector<int32_t>& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});
TrainResult train(LanguageModel& model, TextCorpus& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// Throws FormatError where config.json or a vocabulary of a directory are not those that its training was saved with:
/// for programs that read them before train() does. A directory without a training, or with one of before heed kept
/// checksums, is as it should be.
void check_program_files(const std::string& directory);

/// Mean loss per target token without dropout or label smoothing.
double validation_nll(Transformer& model, const SentencePairs& pairs, int64_t batch_tokens);
/// Of all tokens of a text but the first, in blocks (above) of `block` tokens, 1 to max_positions. Throws ShapeError.
double validation_nll(LanguageModel& model, const std::vector<int32_t>& text, int64_t block);

/// Floating-point operations that one training step needs at least for a sentence pair of these lengths (tokens, with
/// begin or end), padding not counted: 2 for each multiply-add of the matrix products and of attention forward, twice
/// that backward. Embedding look-ups, norms, softmax and the optimiser count nothing; recomputing counts nothing.
double training_flop(const TransformerConfig& config, int64_t source_length, int64_t target_length);
/// The same for a piece of text whose `length` tokens each predict the next.
double training_flop(const LanguageModelConfig& config, int64_t length);

}  // namespace heed::inline v0
