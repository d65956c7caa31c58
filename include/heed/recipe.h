// Training from files to a model directory: what `heed train` and heed.train() do. Options that are absent are chosen
// from the data and the time limit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/communicator.h"
#include "heed/corpus.h"
#include "heed/token_file.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// A training to run. Each field is an option of `heed train` (docs/training.md). An absent field is taken from
/// `config`, from the training in `model` that is resumed, from `init`, from `preset`, or is chosen from the data and
/// the time limit, in this order. training_options() describes the fields.
struct TrainingRequest {
  // Data. Files may be patterns, be compressed by gzip, or be "-" for standard input (files_of).
  std::vector<std::string> pairs{}, source{}, target{};
  std::vector<std::string> valid_pairs{}, valid_source{}, valid_target{};
  std::vector<std::string> text{}, valid_text{}, labelled{}, valid_labelled{}, exclude{};
  std::optional<TextPairs> pairs_in_memory{}, valid_pairs_in_memory{};  // instead of files; no options of heed train
  std::optional<std::string> columns{}, prefix{}, source_language{}, target_language{};
  std::optional<double> valid_fraction{}, character_coverage{};
  std::optional<std::string> vocab_type{}, vocabulary{}, source_vocabulary{};
  std::optional<bool> skip_bad_lines{}, separate_vocabularies{}, trust{};

  // The model
  std::optional<std::string> model{}, init{}, preset{}, lora_layers{};  // model: the directory to write
  std::optional<int64_t> lora{};
  std::optional<double> lora_alpha{};
  std::optional<int64_t> vocab_size{}, d_model{}, heads{}, kv_heads{}, encoder_layers{}, decoder_layers{}, layers{};
  std::optional<int64_t> feed_forward{}, max_positions{};
  std::optional<double> dropout{}, attention_dropout{}, activation_dropout{};
  std::optional<std::string> activation{}, norm{}, positions{};
  std::optional<bool> pre_norm{}, bias{}, tie_embeddings{};

  // The training
  std::optional<uint64_t> seed{};
  std::optional<int64_t> threads{}, batch_tokens{}, max_length{}, batch{}, block{}, accumulate{}, warmup{}, anneal{};
  std::optional<int64_t> validate_every{}, bleu_sentences{}, average{}, max_updates{}, max_epochs{}, patience{};
  std::optional<int64_t> save_every{}, log_every{}, context_ranks{};
  std::optional<double> subword_dropout{}, learning_rate{}, min_learning_rate{}, beta1{}, beta2{}, epsilon{};
  std::optional<double> weight_decay{}, clip_norm{}, label_smoothing{}, r_drop{}, max_minutes{}, save_minutes{};
  std::optional<double> rank_timeout{};
  std::optional<std::string> schedule{}, validate_by{};

  // Reports
  std::optional<std::string> html{}, html_lines{}, tensorboard{}, timeline{};

  // Sources of further options: a file of options, and the directory of a training to resume.
  std::optional<std::string> config{}, resume{};

  /// How messages call an option, by the name of its field: "--max-updates" in `heed train`. Default: the field.
  std::string (*spelling)(const std::string& field) = nullptr;
  /// Ranks that train together, each with the same request; nullptr: one process.
  Communicator* ranks = nullptr;
};

/// The names of what is counted: a text consists of blocks.
struct TrainWords {
  const char* tokens = "words";
  const char* sequences = "sentences";
  double bits = 0;  // bits per byte = bits * loss; 0: not known
};
/// A loss for people: "1.2345 (1.7810 bits/byte)".
std::string loss_in_words(double nll, const TrainWords& words);
/// A duration for people: "1:02:03".
std::string duration(double minutes);

/// A way to try a trained model.
struct NextUse {
  enum class Use : uint8_t { translate, generate, classify_texts, classify_images } use{};
  std::string model{};    // its directory
  std::string example{};  // a text of the data, the beginning of one to continue, or an image file; "TEXT" if none fits
  std::string prefix{}, source_language{}, target_language{};  // as in the training
};

/// Receives what happens during a training, in the thread that trains.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  /// The options are complete, apart from those that the data decides; the data is not read yet.
  virtual void complete(const TrainingRequest&) {}
  /// Notes about the data and about the options that were chosen, before training begins.
  virtual void say(const std::string&) {}
  /// The data has been read; training begins. `words` names what is counted.
  virtual void begin(const TrainWords&) {}
  /// Lines about the training.
  virtual void line(const std::string&) {}
  virtual void step(const TrainStep&) {}
  virtual void progress(const TrainProgress&) {}
  virtual void validation(const Validation&) {}
  /// The model has been written.
  virtual void next(const NextUse&) {}
  /// Called after each update; true saves and stops.
  virtual bool stop() { return false; }
};

/// Trains a Transformer that translates, from sentence pairs, and writes its directory, which Translator loads. The
/// same request resumes an interrupted training. Throws UsageError for options that do not fit together, FormatError
/// for the content of files, IoError, and TrainingError for a loss that is not finite.
TrainResult train_translator(const TrainingRequest& request, TrainingObserver* observer = nullptr);
/// Trains a language model from a text, and writes its directory, which TextGenerator loads. Throws as
/// train_translator().
TrainResult train_language_model(const TrainingRequest& request, TrainingObserver* observer = nullptr);
/// Trains what the request has data for: a translator, a language model, or the Hugging Face model in `init`.
TrainResult train(const TrainingRequest& request, TrainingObserver* observer = nullptr);

/// Whether a file of the request is standard input.
bool reads_standard_input(const TrainingRequest& request);

/// Receives what happens while tokens are prepared.
class PrepareObserver {
 public:
  virtual ~PrepareObserver() = default;
  /// The request is right; files are read from here on.
  virtual void begin() {}
  /// Notes about the data and about what was chosen.
  virtual void say(const std::string&) {}
  /// A line that replaces the one before; empty: the step has ended.
  virtual void progress(const std::string&) {}
};
/// Writes the texts of a request as tokens into one file, which a training takes instead of the texts and reads as it
/// goes (heed/token_file.h). Uses pairs, source, target, text, exclude, columns, skip_bad_lines and the options of
/// vocabularies; vocabularies are learned as in a training. Throws UsageError for options that do not fit together and
/// for a file that is no token file, FormatError, and IoError.
TokenFileInfo prepare_tokens(const TrainingRequest& request, const std::string& path,
                             PrepareObserver* observer = nullptr);

// ------------------------------------------------------------------------------------- for front ends: options by name

/// A description of an option.
struct TrainingOption {
  enum class Kind : uint8_t { text, whole, number, boolean, flag };  // a flag is given without a value
  const char* field;                                                 // of TrainingRequest: "max_updates"
  std::string key;                                                   // in files of options: "max-updates"
  const char* group;  // "Data", "Model", "Training" or "Report"; "" for general options
  Kind kind;
  bool several = false;                // takes a list
  bool path = false;                   // of a file or a directory
  const char* value;                   // what the value is, for help: "FILE"
  std::vector<std::string> choices{};  // the permitted texts
  double lowest, highest;              // the permitted range of numbers
  std::string help;                    // fields in braces (help_of); may end in the default in brackets
  std::string standard{};              // the default as text; empty: none
};
/// The help of an option, with the names of other options as `spelling` has them; null: fields.
std::string help_of(const TrainingOption& option, std::string (*spelling)(const std::string& field));
/// All options, in the order of help, without `config` and `resume`.
std::span<const TrainingOption> training_options();
/// The option of that field. Throws UsageError if there is none.
const TrainingOption& training_option(const std::string& field);

/// Names of options in other programs, each with its key here: "epochs", "max-epochs".
std::span<const std::pair<std::string_view, std::string_view>> names_elsewhere();

/// Sets an option from text, as `heed train` and files of options have it. Throws UsageError for an unknown option and
/// for values that it does not take.
void set_option(TrainingRequest& request, const std::string& field, const std::vector<std::string>& values);
/// The values of an option as text; empty if it is absent.
std::vector<std::string> option_values(const TrainingRequest& request, const std::string& field);
/// Options of `more` for those that are absent in `request`.
void fill_in(TrainingRequest& request, const TrainingRequest& more);

/// The options of the file `path`, in TOML: NAME = VALUE, one on each line. Paths are relative to the file. Throws
/// FormatError, which names the line.
TrainingRequest read_options(const std::string& path);
/// All options as such a file, with descriptions: absent ones with their defaults, and those that have none as
/// comments. Paths are absolute.
std::string describe_options(const TrainingRequest& request);

/// A message about a file that an option names, with that option: "open pairs.tsv: ..." as "pairs pairs.tsv: ...".
std::string with_option(const std::string& message, const TrainingRequest& request);

}  // namespace heed::inline v0
