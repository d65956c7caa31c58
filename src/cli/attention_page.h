// Pages about attention: what a model looked at while it translated, and small examples to learn from.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/attended.h"
#include "heed/load.h"
#include "heed/view.h"

namespace heed::cli {

/// Encoder, decoder and cross-attention, the steps of the output with the likeliest tokens, and the examples.
/// `layer`: whose vectors come first into the page, from 0; those of other layers while there is room, and of none
/// whose weights are more than the softmax of what vectors and scale give, as with T5's biases.
Page translation_page(const SeenTranslation& seen, int64_t layer, const StoredModel& model);
/// Self-attention, of a language model with the likeliest tokens behind each token (where the model wrote some: at
/// those), and the examples.
Page text_page(const SeenText& seen, int64_t layer, const StoredModel& model);

/// Puts the groups of another text, but for the examples, beside those of `page`.
void compare_with(const Page& other, Page* page);

/// Basic self-attention, a dictionary on a circle, and a causal mask: small enough to follow each number. Only their
/// vectors are given; heed::attention computes the rest.
std::vector<PageGroup> textbook_examples();

}  // namespace heed::cli
