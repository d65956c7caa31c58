// Pages about attention: what a model looked at while it translated, and small examples to learn from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/picture_attention.h"
#include "heed/attended.h"
#include "heed/load.h"
#include "heed/picture_reader.h"
#include "heed/view.h"

namespace heed::cli {

/// Encoder, decoder and cross-attention, and the steps of the output with the likeliest tokens.
/// `layer`: whose vectors come first into the page, from 0; those of other layers while there is room, and of none
/// whose weights are more than the softmax of what vectors and scale give, as with T5's biases.
Page translation_page(const SeenTranslation& seen, int64_t layer, const StoredModel& model);
/// Self-attention, of a language model with the likeliest tokens behind each token (where the model wrote some: at
/// those).
Page text_page(const SeenText& seen, int64_t layer, const StoredModel& model);

/// Behind the groups of a page those of the same attention measured in another way, `measure` by name.
void add_measured(std::vector<SeenAttention> all, const std::string& measure, Page* page);
/// What each layer would have written, at each step of the page of what was seen.
void add_lens(const LogitLens& lens, const Tokenizer& tokenizer, Page* page);

/// Self-attention of the class token and the patches, over the picture.
Page picture_page(const SeenPicture& seen, const Patches& patches, int64_t layer, const StoredModel& model);
/// Weights are spread over many patches: more of a row is stored, as far as the page stays a few megabytes.
PageOptions options_of_picture(const Page& page);

/// Puts the groups of another text beside those of `page`.
void compare_with(const Page& other, Page* page);

/// Basic self-attention, a dictionary on a circle, and a causal mask: small enough to follow each number. Only their
/// vectors are given; heed::attention computes the rest.
std::vector<PageGroup> textbook_examples();

}  // namespace heed::cli
