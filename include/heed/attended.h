// What a model attends to while it translates or reads a text, with the tokens that queries and keys are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/models.h"
#include "heed/tokenizer.h"

namespace heed::inline v0 {

struct Tokens {
  std::vector<std::string> labels;
  std::vector<int32_t> words;  // the word of each token, from 0
};
/// Tokens as a reader wants them: without the space in front, which is U+2581 where it is the token. A sign is a word
/// of its own, and so is a special token.
Tokens tokens_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);

/// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stacked(const std::vector<Tensor>& layers);

/// A sentence as a model took it.
struct SeenTranslation {
  std::string text, translation;
  std::vector<int32_t> source;  // ends with eos
  std::vector<int32_t> input;   // what the decoder took: begins with bos
  std::vector<int32_t> output;  // what it produced: ends with eos
  AttentionRecord record;
  Variable hidden;  // (1, Lt, E) of the decoder
};

/// A text as a language model or a text encoder took it, likewise.
struct SeenText {
  std::string text;
  std::vector<int32_t> ids;
  AttentionRecord record;  // `decoder` of a language model, `encoder` of a text encoder
  Variable hidden;         // (1, L, E)
  int64_t given = 0;       // so many of ids, the model wrote the rest; 0: all of them
};

/// Translates a text as one sentence with a Transformer, or takes `given` for its translation where that is not empty.
/// Malformed UTF-8 is replaced. Throws UsageError for a text without tokens, ShapeError for more than the model takes,
/// Error where what the model computes is not finite.
SeenTranslation see_translation(const StoredModel& model, const std::string& text, const std::string& given = "",
                                int64_t beam = 5, bool want_vectors = false);
/// Reads a text with a LanguageModel, and lets it write `generate` tokens more, the likeliest each; or with a
/// TextEncoder, which writes none. Throws likewise.
SeenText see_text(const StoredModel& model, const std::string& text, int64_t generate = 0, bool want_vectors = false);

/// Attention of one kind.
struct SeenAttention {
  std::string name;      // "Encoder"
  std::string title;     // what rows and columns are, in a sentence
  Tensor weights;        // (N, H, Lq, Lk)
  Tokens queries, keys;  // Lq, Lk
};
/// "Encoder", "Decoder" and "Cross", without those that the model has no layers of. A row of "Cross" is the token that
/// is produced there.
std::vector<SeenAttention> attention_of(const SeenTranslation& seen, const StoredModel& model);
/// "Self-attention".
std::vector<SeenAttention> attention_of(const SeenText& seen, const StoredModel& model);

}  // namespace heed::inline v0
