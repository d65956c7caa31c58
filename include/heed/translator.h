// Text in, text out: Transformers with their tokenizers.
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

/// Of so many lines, from the first on, sentences are sorted by length and share batches; longer texts are taken in
/// parts of this size.
inline constexpr int64_t kLinesTogether = 2048;

struct TranslateOptions {
  BeamOptions beam{};    // its streams are set here
  int64_t batch = 32;    // sentences decoded together, at most
  bool split = true;     // a line's sentences are translated one by one (split_sentences)
  std::string prefix{};  // in front of each sentence: "translate English to German: " for T5
  /// Of models of many languages, as their tokenizer names them: "fra_Latn", or "fr" for "__fr__" and ">>fr<<". A token
  /// of the source's replaces the tokenizer's own in front of a sentence. A token of the target's begins its
  /// translation; Marian's, ">>fr<<", is put in front of each sentence. A line that begins with one has its own.
  std::string source_language{}, target_language{};
  int64_t first_line = 0;  // lines before these: draws are functions of the seed, the line's number and the step
  /// Called before each batch, by whichever thread decodes it; what it throws ends the call.
  std::function<void()> on_batch{};
  /// Others that make the same call: batches are dealt over them. Rank 0 gets what one process would, the others
  /// nothing.
  Communicator* ranks = nullptr;
};

struct Translation {
  std::string text;
  double score = 0;                                      // log p / length^length_penalty, summed over sentences
  double log_probability = 0;                            // of all tokens
  std::vector<std::pair<std::string, float>> tokens{};   // piece and log p, each sentence with its end
  std::vector<std::pair<int64_t, int64_t>> alignment{};  // (source word, target word), from 0; where asked for
};

struct TranslatedLine {
  std::vector<Translation> best{};  // n_best, best first
  bool cut = false;                 // a sentence was longer than the model takes
};

/// Each line's translations, in order. Blank lines (is_blank) stay as they are. Where a line is split, its translation
/// is joined of those of its sentences, with what stood between them; the n-th best is made of the n-th best of each,
/// and words are counted through the line. Several models translate as one (an ensemble). They must not be in training.
/// `source` is the tokenizer of what they read, `target` of what they write. Throws ShapeError for options out of
/// range, UsageError for languages that the tokenizers do not have, and for BeamOptions::refused.
std::vector<TranslatedLine> translate_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                            const Tokenizer& target, const std::vector<std::string>& lines,
                                            const TranslateOptions& options = {});

/// The same for translations that are given, one for each line: their scores, tokens and alignment. Lines are taken
/// whole. Throws FormatError for a translation that is longer than the models take.
std::vector<TranslatedLine> score_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                        const Tokenizer& target, const std::vector<std::string>& lines,
                                        const std::vector<std::string>& given, const TranslateOptions& options = {});

/// Pairs as the loss of `model`, a Transformer, takes them: for train(). Of the options, prefix and languages count;
/// the target's language is the model's own where none is given. Nothing is cut; blank texts have no ids, so that
/// train() leaves them out. Throws as translate_lines().
SentencePairs encode_pairs(const StoredModel& model, const TextPairs& texts, const TranslateOptions& options = {});

/// One model, or several that translate as one, with their tokenizers.
class Translator {
 public:
  /// Throws as load(), and UsageError where a directory holds another kind of model, or the tokenizers are not the
  /// same.
  explicit Translator(const std::vector<std::string>& directories, const LoadOptions& options = {});
  explicit Translator(const std::string& directory, const LoadOptions& options = {})
      : Translator(std::vector<std::string>{directory}, options) {}

  /// Options are completed as the model wants it (StoredModel::completed).
  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines,
                                        const TranslateOptions& options = {}) const;
  std::vector<TranslatedLine> score(const std::vector<std::string>& lines, const std::vector<std::string>& given,
                                    const TranslateOptions& options = {}) const;

  std::span<const Transformer* const> models() const { return models_; }
  const Transformer& model() const { return *models_.front(); }
  const StoredModel& stored() const { return stored_.front(); }  // the first
  int64_t max_source_tokens() const;                             // special tokens not counted

 private:
  std::vector<StoredModel> stored_;
  std::vector<const Transformer*> models_;
};

}  // namespace heed::inline v0
