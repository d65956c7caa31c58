// heed train --html: a page about a training, written anew at each validation from the log and from maps that are kept
// in the directory of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heed/text.h"
#include "heed/train.h"
#include "heed/view.h"

namespace heed::inline v0 {

/// Bytes of the maps that are kept in kAttentionFile: 8 bits a weight, in a safetensors file that other programs can
/// read, too. Moments are thinned out to stay below; the first and the last are always kept.
inline constexpr int64_t kMostMapBytes = 16 << 20;
/// Of longer sentences the first tokens are watched.
inline constexpr int64_t kMostWatchedTokens = 64;

/// A sentence whose attention is watched.
struct WatchedSentence {
  std::vector<int32_t> source{}, target{};  // of a text: target alone
  std::string text{};
};

/// The pairs with these numbers (from 1), or without numbers the first three of moderate length.
std::vector<WatchedSentence> watched_pairs(const TextPairs& texts, const SentencePairs& ids,
                                           const std::vector<int64_t>& numbers);
/// The lines of a text with these numbers, likewise; at most `longest` tokens of each. Throws UsageError where there
/// are none.
std::vector<WatchedSentence> watched_lines(const std::vector<std::string>& lines, const Vocabulary& vocabulary,
                                           const std::vector<int64_t>& numbers, int64_t longest);

/// "3,17" as numbers. `name`: the option, for messages. Throws UsageError where one is not in 1..count; `of` says what
/// is counted.
std::vector<int64_t> parse_line_numbers(const std::string& name, const std::string& list, int64_t count,
                                        const std::string& of);

/// `option` begins messages. Throws IoError where no file could be written at `path`, UsageError where it is one of
/// `inputs` or may be a file of the model in `directory`. A path in `directory`, which may be made later, is not
/// written to before that.
void check_report_path(const std::string& option, const std::string& path, const std::string& directory,
                       const std::vector<std::string>& inputs);

/// What is watched of a model, of either kind.
struct Watched {
  std::vector<WatchedSentence> sentences{};
  std::vector<std::vector<ReportKind>> kinds{};       // of each sentence
  std::function<std::vector<Tensor>(size_t)> look{};  // (N, H, Lq, Lk) of each kind of a sentence, by now
  std::string bleu_note{};                            // of its curve; none: no such curve
  bool perplexity = false;
};
Watched watch(const Transformer& model, const Vocabulary& of_source, const Vocabulary& of_target,
              std::vector<WatchedSentence> sentences);
Watched watch(const LanguageModel& model, const Vocabulary& vocabulary, std::vector<WatchedSentence> sentences);

/// The moments whose maps are kept.
class MapsOverTime {
 public:
  struct Moment {
    int64_t update = 0;
    std::vector<Tensor> levels{};  // u8 (N, H, Lq, Lk) of each kind: round(255 sqrt(weight / largest of its row))
  };
  struct Track {
    WatchedSentence sentence{};
    std::vector<Moment> moments{};
  };

  /// Takes up what `path` holds, where there is such a file. Throws FormatError.
  MapsOverTime(const std::string& path, const std::vector<WatchedSentence>& sentences, size_t kinds);

  /// Those of `sentences` in their order, then those of sentences that were watched before.
  const std::vector<Track>& tracks() const { return tracks_; }
  bool has(size_t sentence, int64_t update) const;
  void add(size_t sentence, int64_t update, const std::vector<Tensor>& weights);
  /// Leaves out moments, those closest to their neighbours first, until all take `bytes` or each sentence has two.
  void thin(int64_t bytes = kMostMapBytes);
  FillFile file() const;

 private:
  int64_t bytes() const;
  std::vector<Track> tracks_;
};

class ReportOnTraining {
 public:
  struct About {
    std::string path, directory, title, text;
    double clip_norm = 0;
  };
  /// The model as it is before the first update is the first moment.
  ReportOnTraining(About about, Watched watched);

  /// For TrainHooks::examine.
  Examination examine(const Validation& validation);
  /// Writes the page as the log is by now. Throws IoError.
  void write();
  /// The model has the weights of this update, which is the last. Writes the page.
  void finish(int64_t update);

 private:
  void record(int64_t update);
  void read_log();
  TrainingReport report() const;

  About about_;
  Watched watched_;
  MapsOverTime maps_;
  int64_t log_bytes_ = 0;  // read of the log
  int64_t broken_lines_ = 0;
  std::vector<ReportPoint> training_loss_, validation_loss_, average_loss_, learning_rate_, gradient_norm_, bleu_;
  int64_t update_ = 0, epoch_ = 0;
  double minutes_ = 0;
};

}  // namespace heed::inline v0
