// Text in, text out: a Transformer with its vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/checkpoint.h"

namespace heed::cli {

struct Translation {
  std::string text;
  double score = 0;                                      // log p / length^length_penalty
  std::vector<std::pair<int64_t, int64_t>> alignment{};  // (source word, target word), from 0; where asked for
};

struct TranslatedLine {
  std::vector<Translation> best{};  // n_best, best first; one empty text for an empty line
  bool cut = false;                 // the line was longer than the model takes
};

/// Each line's translations, in order; at most `batch` sentences are decoded together. The model must not be in
/// training. Throws ShapeError for options out of range.
std::vector<TranslatedLine> translate_lines(const Transformer& model, const Vocabulary& vocabulary,
                                            const std::vector<std::string>& lines, const BeamOptions& options = {},
                                            int64_t batch = 32);

class Translator {
 public:
  /// Throws as load_checkpoint.
  explicit Translator(const std::string& directory, bool trust = false)
      : checkpoint_(load_checkpoint<Transformer>(directory, trust)) {}

  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines, const BeamOptions& options = {},
                                        int64_t batch = 32) const {
    return translate_lines(model(), vocabulary(), lines, options, batch);
  }

  const Transformer& model() const { return *checkpoint_.model; }
  const Vocabulary& vocabulary() const { return checkpoint_.vocabulary; }

 private:
  Checkpoint<Transformer> checkpoint_;
};

}  // namespace heed::cli
