// Pages for a browser from models: the attention of a text, a translation or an image, two of them compared, heads
// changed, and the model itself. render_html() (heed/view.h) writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/attended.h"
#include "heed/head_changes.h"
#include "heed/image_encoder.h"
#include "heed/load.h"
#include "heed/picture_reader.h"
#include "heed/text_reader.h"
#include "heed/view.h"

namespace heed::inline v0 {

/// The tokens that a translator generated, or the tokens of a text after the first; none for a text encoder.
struct Predicted {
  std::vector<std::string> tokens{};
  /// The probability of each token by a model of the same kind; empty if its tokenizer differs.
  std::function<std::vector<double>(const StoredModel&)> probabilities{};
};
/// `model` must outlive the result.
Predicted predicted_of(const SeenTranslation& seen, const StoredModel& model);
Predicted predicted_of(const SeenText& seen, const StoredModel& model);

/// A prediction for each token; none if either list of probabilities is empty.
std::vector<PagePrediction> predictions_of(const std::vector<std::string>& tokens, const std::vector<double>& first,
                                           const std::vector<double>& second);

/// Encoder, decoder and cross-attention, and the steps of the output with the most likely tokens. `layer`, from 0: the
/// layer whose vectors the page stores first. It stores those of other layers while there is room. It stores none if
/// vectors and scale alone do not give the weights, as with T5's biases.
Page translation_page(const SeenTranslation& seen, int64_t layer, const StoredModel& model);
/// Self-attention. For a language model also the most likely tokens after each token, or at each token it generated.
Page text_page(const SeenText& seen, int64_t layer, const StoredModel& model);

struct PageRequest {
  std::string text{};
  std::string target{};  // the translation to show, for a translator; empty: the model's own
  int64_t beam = 5;      // of the translation
  int64_t generate = 0;  // tokens that a language model generates after the text
  int64_t layer = 0;     // whose vectors the page stores first, from 1; 0: the last
  OnWritten on_written{};
};
struct SeenPage {
  Page page{};
  Predicted predicted{};
};
/// The page of a text for a Transformer, a LanguageModel or a TextEncoder. Throws UsageError for a layer that does not
/// exist, and as see_translation() and see_text().
SeenPage see_page(const StoredModel& model, const PageRequest& request);

/// Two models or texts on one page: shows the groups of `other` beside those of `page`.
void compare_with(const Page& other, Page* page);
/// The page of a text and, beside it, its page with changed heads; without changes, the page alone. `look` returns the
/// page of the model as it is at that moment. Throws UsageError for heads that do not exist.
Page page_with_changes(const GroupChanges& changes, const StoredModel& model, const std::function<SeenPage()>& look);

/// Adds groups with another measure of the same attention. `measure`: its name.
void add_measured(std::vector<SeenAttention> all, const std::string& measure, Page* page);
/// Adds the prediction of each layer to each step of the page.
void add_lens(const LogitLens& lens, const Tokenizer& tokenizer, Page* page);
/// Adds the importance of each head to the groups of the page.
void add_importance(const HeadImportance& importance, Page* page);
/// The logit lens as text: for each token from row `first` on, the most likely tokens of each layer. `tokens`: labels
/// of these rows. The lens may have one row more, for the token that comes next.
std::string lens_table(const LogitLens& lens, const Tokenizer& tokenizer, const std::vector<std::string>& tokens,
                       int64_t first);

/// The input of an image model from a file: (1, channels, height, width). A PNG file and an .npy file of (H, W, 3)
/// bytes are images, and are prepared as preprocessor_config.json in the model's `directory` says. An .npy file of
/// floating (channels, height, width), or with a leading 1, is prepared already. Throws ShapeError for an array of
/// another shape or dtype, and as read_png, load_npy and load_image_preparation.
Tensor read_pixels(const std::string& path, const std::string& directory, const ImageEncoderConfig& model);

/// An image as a model read it, and its number of patches.
struct Patches {
  Tensor picture{};  // (height, width, 3) u8: the part that the patches cover
  int64_t rows = 0, columns = 0;
};
/// `pixels`: the result of prepare_image() with `how`.
Patches patches_of(const Tensor& pixels, const ImagePreparation& how, const ImageEncoderConfig& model);
/// The token of a patch, given as "row,column" from 1; empty: 0, the class token. Throws UsageError.
int64_t token_of_patch(const std::string& patch, const Patches& patches);
/// The weights of one token over the image. The weights of `map` are (1 + P, 1 + P) of one head, or have heads and
/// layers before them. A note gives the weight on the class token.
PatchMap over_picture(const AttentionMap& map, const Patches& patches, int64_t token);
/// Self-attention of the class token and the patches, over the image.
Page picture_page(const SeenPicture& seen, const Patches& patches, int64_t layer, const StoredModel& model);
/// Options for such a page. Weights spread over many patches, so more of each row is stored, within a few megabytes.
PageOptions options_of_picture(const Page& page);
/// The three most likely classes: "cat 0.912, dog 0.081".
std::string likeliest(const std::vector<ScoredLabel>& classes);

/// Three examples that are small enough to follow each number: basic self-attention, a dictionary on a circle, and a
/// causal mask.
std::vector<PageGroup> textbook_examples();

/// The model of a page that computes in the browser, with float16 weights. Takes any Transformer, LanguageModel or
/// TextEncoder, with the text of the file NOTICE in `directory`. `beam` and `generate` as in PageRequest. Throws
/// UsageError for other models, a GGUF file and more than 50 million parameters, FormatError for weights that float16
/// cannot hold.
LiveModel live_model(const StoredModel& model, const std::string& directory, int64_t beam, int64_t generate);

}  // namespace heed::inline v0
