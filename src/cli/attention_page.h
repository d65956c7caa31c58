// Pages about attention: what a model looked at while it translated, and small examples to learn from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"
#include "heed/view.h"

namespace heed::cli {

struct Tokens {
  std::vector<std::string> labels;
  std::vector<int32_t> words;  // the word of each token, from 0
};
/// Tokens as a page shows them.
Tokens tokens_of(const Vocabulary& vocabulary, const std::vector<int32_t>& ids);

/// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stacked(const std::vector<Tensor>& layers);

/// A sentence as a model took it: record.want_vectors as wanted, hidden states (1, Lt, E) of the decoder.
struct SeenTranslation {
  std::string text, translation;
  std::vector<int32_t> source;  // ends with eos
  std::vector<int32_t> input;   // what the decoder took: begins with bos
  std::vector<int32_t> output;  // what it produced: ends with eos
  AttentionRecord record;
  Variable hidden;
  int64_t layer = 0;  // whose vectors come first into the page, from 0; those of other layers while there is room
};

/// A text as a language model took it, likewise.
struct SeenText {
  std::string text;
  std::vector<int32_t> ids;
  AttentionRecord record;
  Variable hidden;  // (1, L, E)
  int64_t layer = 0;
  int64_t given = 0;  // so many of ids, the model wrote the rest; 0: all of them
};

/// Encoder, decoder and cross-attention, the steps of the output with the likeliest tokens, and the examples.
Page translation_page(const SeenTranslation& seen, const Transformer& model, const Vocabulary& of_source,
                      const Vocabulary& of_target);
/// Self-attention, the likeliest tokens behind each token (where the model wrote some: at those), and the examples.
Page language_model_page(const SeenText& seen, const LanguageModel& model, const Vocabulary& vocabulary);

/// Puts the groups of another text, but for the examples, beside those of `page`.
void compare_with(const Page& other, Page* page);

/// Basic self-attention, a dictionary on a circle, and a causal mask: small enough to follow each number. Only their
/// vectors are given; heed::attention computes the rest.
std::vector<PageGroup> textbook_examples();

}  // namespace heed::cli
