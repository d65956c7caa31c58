// Translation: Transformers with their tokenizers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/communicator.h"
#include "heed/load.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// Sentences of up to this many lines are sorted by length and batched together; longer texts are processed in parts of
/// this size.
inline constexpr int64_t kLinesTogether = 2048;

struct TranslateOptions {
  BeamOptions beam{};  // its streams are set by translate_lines()
  int64_t batch = 32;  // most sentences decoded together
  /// Translate each sentence of a line by itself (split_sentences). Default: StoredModel::takes_sentences(); true
  /// where no StoredModel is given.
  std::optional<bool> split{};
  std::string prefix{};  // put before each sentence: "translate English to German: " for T5
  /// Languages of a multilingual model, as its tokenizer names them: "fra_Latn", or "fr" for "__fr__" and ">>fr<<". The
  /// source's token replaces the tokenizer's default before a sentence. The target's token begins the translation;
  /// Marian's, ">>fr<<", is put before each sentence. A line that begins with such a token overrides the option.
  std::string source_language{}, target_language{};
  int64_t first_line = 0;  // lines before these; draws depend on the seed, the line number and the step
  /// Called before each batch in the thread that decodes it. An exception ends the call.
  std::function<void()> on_batch{};
  /// Ranks that make the same call; they share the batches. Rank 0 returns the result of a single process, the others
  /// nothing.
  Communicator* ranks = nullptr;
};

struct Translation {
  std::string text;
  double score = 0;                                      // log p / length^length_penalty, summed over sentences
  double log_probability = 0;                            // of all tokens
  std::vector<std::pair<std::string, float>> tokens{};   // piece and log p; each sentence includes its end
  std::vector<std::pair<int64_t, int64_t>> alignment{};  // (source word, target word), from 0; if requested
};

struct TranslatedLine {
  /// Best first, at most n_best. Found by beam search, they have different texts, and none but the first is empty:
  /// there are fewer if the search finds fewer. Drawn ones may repeat.
  std::vector<Translation> best{};
  bool cut = false;  // a sentence was longer than the model takes
};

/// A line and its translations as a JSON object without line breaks: "source", "cut" if it was cut, and "translations",
/// each with "text", "score", "log_probability", "tokens" and, if asked for, "alignment" (docs/translating.md).
std::string to_json(const std::string& source, const TranslatedLine& line, bool alignment);

/// Translates each line, in order. Blank lines (is_blank) are returned unchanged. If a line is split, its translation
/// joins those of its sentences with the text between them, and words are counted over the line. The n best are the
/// combinations with the highest sums of scores; of drawn ones the n-th joins the n-th of each sentence. Several models
/// form an ensemble and must not be in training. `source` is the tokenizer of the input, `target` of the output. Throws
/// ShapeError for options out of range, UsageError for unknown languages and for BeamOptions::refused.
std::vector<TranslatedLine> translate_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                            const Tokenizer& target, const std::vector<std::string>& lines,
                                            const TranslateOptions& options = {});

/// Scores, tokens and alignments of given translations, one for each line. Lines are not split. Throws FormatError for
/// a translation longer than the models take.
std::vector<TranslatedLine> score_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                        const Tokenizer& target, const std::vector<std::string>& lines,
                                        const std::vector<std::string>& given, const TranslateOptions& options = {});

/// Pairs as input of the loss of `model`, a Transformer, for train(). Uses the prefix and the languages of the options;
/// the default target language is that of the model. Nothing is cut. Blank texts have no ids, so train() leaves them
/// out. Throws as translate_lines().
SentencePairs encode_pairs(const StoredModel& model, const TextPairs& texts, const TranslateOptions& options = {});

/// One model, or an ensemble, with its tokenizers.
class Translator {
 public:
  /// Throws as load(), and UsageError for another kind of model or different tokenizers.
  explicit Translator(const std::vector<std::string>& directories, const LoadOptions& options = {});
  explicit Translator(const std::string& directory, const LoadOptions& options = {})
      : Translator(std::vector<std::string>{directory}, options) {}
  /// Takes a model that was loaded or trained. Throws UsageError for another kind of model.
  explicit Translator(StoredModel model);

  /// Missing options come from the model's directory (StoredModel::completed).
  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines,
                                        const TranslateOptions& options = {}) const;
  std::vector<TranslatedLine> score(const std::vector<std::string>& lines, const std::vector<std::string>& given,
                                    const TranslateOptions& options = {}) const;

  std::span<const Transformer* const> models() const { return models_; }
  const Transformer& model() const { return *models_.front(); }
  const StoredModel& stored() const { return stored_.front(); }  // the first
  int64_t max_source_tokens() const;                             // without special tokens

 private:
  void add(StoredModel model);

  std::vector<StoredModel> stored_;
  std::vector<const Transformer*> models_;
};

}  // namespace heed::inline v0
