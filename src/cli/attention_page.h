// Pages about attention: what a model looked at while it translated, and small examples to learn from.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/attended.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/view.h"

namespace heed::cli {

/// Encoder, decoder and cross-attention, the steps of the output with the likeliest tokens, and the examples.
/// `layer`: whose vectors come first into the page, from 0; those of other layers while there is room.
Page translation_page(const SeenTranslation& seen, int64_t layer, const Transformer& model, const Vocabulary& of_source,
                      const Vocabulary& of_target);
/// Self-attention, the likeliest tokens behind each token (where the model wrote some: at those), and the examples.
Page language_model_page(const SeenText& seen, int64_t layer, const LanguageModel& model, const Vocabulary& vocabulary);

/// Puts the groups of another text, but for the examples, beside those of `page`.
void compare_with(const Page& other, Page* page);

/// Basic self-attention, a dictionary on a circle, and a causal mask: small enough to follow each number. Only their
/// vectors are given; heed::attention computes the rest.
std::vector<PageGroup> textbook_examples();

}  // namespace heed::cli
