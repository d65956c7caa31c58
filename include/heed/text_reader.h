// Models that read texts: sentence vectors, classification of texts and tokens, question answering, masked words, and
// all intermediate results.
//
// Functions of many texts process them in batches without padding, long texts first, in several threads. Results do not
// depend on the number of threads nor, except for rounding, on the other texts. A text that is too long for the model
// is cut at its end if the result has a flag for it, else refused. All functions throw UsageError for an unsuitable
// model, with a description of it, and Error for results that are not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/load.h"

namespace heed::inline v0 {

/// A description of a model: "a bert, which finds masked words".
std::string what_it_does(const StoredModel& model);

/// Tokens of the longest text that a model takes, special tokens included.
int64_t longest_text(const StoredModel& model);

// ---------------------------------------------------------------------------------------------- vectors

/// Vectors of N texts.
struct TextVectors {
  Tensor vectors{};           // (N, width) float32
  std::vector<size_t> cut{};  // indices of texts that were cut
};

/// A vector for each text, computed by `modules` from the last states of its tokens (for a translation model, those of
/// the encoder; for a bart, those of the decoder, Transformer::decode_again). Works with every model. A text without
/// tokens gives zeros. Throws FormatError if the modules do not fit the model.
TextVectors embed_texts(const StoredModel& model, const std::vector<std::string>& texts,
                        const SentenceModules& modules = {});

/// For each row of `rows` (N, E), the `top` (at most M) most similar rows of `others` (M, E): indices and similarities,
/// most similar first. The cosine with a vector of zeros is 0. Throws ShapeError for different widths.
std::vector<std::vector<std::pair<size_t, double>>> nearest_rows(const Tensor& rows, const Tensor& others, int64_t top,
                                                                 Similarity by = Similarity::cosine);

// ---------------------------------------------------------------------------------------------- classes

struct ScoredLabel {
  std::string label;
  double score = 0;  // a probability or a value, by ClassScores
};
struct ClassifiedText {
  std::vector<ScoredLabel> labels{};  // all classes, most probable first
  bool cut = false;
};
/// Classifies texts with a model with HeadTask::text_classes. `second`: for each text the second one of a pair, if any;
/// may be empty. In a pair that is too long the longer text is cut. Throws ShapeError for different counts.
std::vector<ClassifiedText> classify_texts(const StoredModel& model, const std::vector<std::string>& texts,
                                           const std::vector<std::optional<std::string>>& second = {});

struct LabelledToken {
  std::string token;  // as stored, "##ing"
  std::string label;
  double score = 0;   // its probability
  ByteRange bytes{};  // of the text
};
struct LabelledSpan {
  std::string label;  // without "B-" and "I-"
  double score = 0;   // mean of its tokens' probabilities
  ByteRange bytes{};
};
struct LabelledText {
  std::vector<LabelledToken> tokens{};  // without added special tokens
  /// Adjacent tokens with one label form a span; "B-" begins a new one. Without the label "O".
  std::vector<LabelledSpan> spans{};
  bool cut = false;
};
/// Labels the tokens of texts with a model with HeadTask::token_classes.
std::vector<LabelledText> label_tokens(const StoredModel& model, const std::vector<std::string>& texts);

// ---------------------------------------------------------------------------------------------- answers

struct AnswerOptions {
  int64_t top = 1;          // answers per question
  int64_t longest = 15;     // tokens of an answer
  int64_t window = 384;     // tokens of question and context that are read at once, at most the model's limit
  int64_t in_common = 128;  // tokens that neighbouring windows share; at most half of a window
  int64_t first_line = 0;   // number of the first question in messages, minus one
};
struct Answer {
  std::string text;   // whole words
  double score = 0;   // probability of its first token times that of its last, within its window
  ByteRange bytes{};  // of the context
};
/// Finds answers to questions[i] in contexts[i], best first, with a model with HeadTask::answers (Devlin et al. 2019,
/// section 4.2). A context without tokens has none. Throws ShapeError for different counts and options below 1,
/// FormatError for a question that leaves no room for a context.
std::vector<std::vector<Answer>> find_answers(const StoredModel& model, const std::vector<std::string>& questions,
                                              const std::vector<std::string>& contexts,
                                              const AnswerOptions& options = {});

// ---------------------------------------------------------------------------------------------- masked words

struct MaskFilling {
  int32_t id = 0;
  std::string token;  // in readable form, with a leading space if it begins a word
  double probability = 0;
  std::string text;  // the whole text, with the other masks filled by their most likely tokens
};
/// The candidates for one mask, most probable first.
using FilledMask = std::vector<MaskFilling>;

struct FillOptions {
  int64_t top = 5;         // candidates per mask
  std::string mask{};      // the mask in the texts; empty: "[MASK]" or "<mask>"
  int64_t first_line = 0;  // number of the first text in messages, minus one
};
/// Fills the masks of each text with a model with HeadTask::masked_words. The result is empty for a text without a
/// mask. Throws FormatError for a text longer than the model takes, and for a model whose tokenizer has neither mask.
std::vector<std::vector<FilledMask>> fill_masks(const StoredModel& model, const std::vector<std::string>& texts,
                                                const FillOptions& options = {});

// ---------------------------------------------------------------------------------------------- all that is computed

/// The ids of a text as a model's input, with special tokens; for a model that predicts tokens, only leading ones.
std::vector<int32_t> reading_ids(const StoredModel& model, const std::string& text);
/// The ids of a text as input of a translation model's decoder, with the start token and without the end token.
std::vector<int32_t> decoder_ids(const StoredModel& model, const std::string& text);

struct ReadOptions {
  bool want_states = false, want_weights = false;
};
/// Results for L tokens, and T tokens of the decoder; float32.
struct Reading {
  /// (L, V) for language models and masked words, (T, V) for translation models, (L, classes) or (classes) for
  /// classifiers, (L, 2) for question answering. Undefined without a head. For images (heed/picture_reader.h), L counts
  /// the class token and the patches.
  Tensor logits{};
  /// (layers + 1, L, E): the input of each layer, then the last states.
  Tensor encoder_states{}, decoder_states{};
  /// (H, Lq, Lk) each, by part and layer from 0: "encoder_0", "decoder_0", "cross_0".
  NamedTensors weights{};
};
/// Whether read_ids() takes a target for the decoder: true for translation models.
bool takes_target(const StoredModel& model);
/// Computes one row of ids, which must include special tokens. `target`: the decoder's input, for translation models
/// only. Throws ShapeError for ids outside the vocabulary and for more than the model takes.
Reading read_ids(const StoredModel& model, const std::vector<int32_t>& ids, const std::vector<int32_t>& target = {},
                 const ReadOptions& options = {});

}  // namespace heed::inline v0
