// Models that read texts: vectors of them, their classes, those of their tokens, answers, what a mask hides, and all
// that is computed on the way.
//
// Functions of many texts take them in batches without padding, long ones first, and deal these to threads; what they
// give depends neither on the number of threads nor, beyond rounding, on the other texts. A text that is longer than
// the model takes is cut at its end, where the result can say so, and refused elsewhere. All throw UsageError for a
// model of another kind, which says what the model is, and Error where what it computes is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/load.h"

namespace heed::inline v0 {

/// What a model is and does: "a bert, which finds masked words".
std::string what_it_does(const StoredModel& model);

/// Tokens of the longest text that a model takes, special ones counted.
int64_t longest_text(const StoredModel& model);

// ---------------------------------------------------------------------------------------------- vectors

/// Vectors of N texts.
struct TextVectors {
  Tensor vectors{};           // (N, width) float32
  std::vector<size_t> cut{};  // the texts that were longer than the model takes
};

/// A vector of each text: of the last states of its tokens, those of a translator's encoder, what the modules say.
/// Every model has them. A text without tokens is a vector of zeros. Throws FormatError where the modules do not fit
/// the model.
TextVectors embed_texts(const StoredModel& model, const std::vector<std::string>& texts,
                        const SentenceModules& modules = {});

/// For each row of (N, E) the `top` rows of (M, E), or all M, whose similarity to it is largest: places and
/// similarities. The cosine of a vector of zeros is 0. Throws ShapeError for unlike widths.
std::vector<std::vector<std::pair<size_t, double>>> nearest_rows(const Tensor& rows, const Tensor& others, int64_t top,
                                                                 Similarity by = Similarity::cosine);

// ---------------------------------------------------------------------------------------------- classes

struct ScoredLabel {
  std::string label;
  double score = 0;  // what ClassScores says: a probability, or a value
};
struct ClassifiedText {
  std::vector<ScoredLabel> labels{};  // of all classes, the most probable first
  bool cut = false;
};
/// Of a model with HeadTask::text_classes. `second`: for each text the second one of a pair, if it has one; none at all
/// where no text has. Of a pair that is too long the longer text is cut. Throws ShapeError for unlike counts.
std::vector<ClassifiedText> classify_texts(const StoredModel& model, const std::vector<std::string>& texts,
                                           const std::vector<std::optional<std::string>>& second = {});

struct LabelledToken {
  std::string token;  // as it is stored, "##ing"
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
  std::vector<LabelledToken> tokens{};  // without those that were added
  /// Neighbours of one label together, but for a "B-", which begins another; without the label "O".
  std::vector<LabelledSpan> spans{};
  bool cut = false;
};
/// Of a model with HeadTask::token_classes.
std::vector<LabelledText> label_tokens(const StoredModel& model, const std::vector<std::string>& texts);

// ---------------------------------------------------------------------------------------------- answers

struct AnswerOptions {
  int64_t top = 1;          // answers to a question
  int64_t longest = 15;     // tokens of an answer
  int64_t window = 384;     // tokens of question and text that are read at once, or as many as the model takes
  int64_t in_common = 128;  // of the text, with the window before; no more than half of a window
  int64_t first_line = 0;   // the number of the first question in messages, less one
};
struct Answer {
  std::string text;   // of whole words
  double score = 0;   // probability of its first token times that of its last, within its window
  ByteRange bytes{};  // of the context
};
/// Where contexts answer questions, best first: of a model with HeadTask::answers (Devlin et al. 2019, section 4.2).
/// None in a context without tokens. Throws ShapeError for unlike counts and options that are not 1 or more,
/// FormatError for a question that leaves no room for a context.
std::vector<std::vector<Answer>> find_answers(const StoredModel& model, const std::vector<std::string>& questions,
                                              const std::vector<std::string>& contexts,
                                              const AnswerOptions& options = {});

// ---------------------------------------------------------------------------------------------- masked words

struct MaskFilling {
  int32_t id = 0;
  std::string token;  // as a reader wants it, with the space in front where a word begins
  double probability = 0;
  std::string text;  // the whole of it, where other masks are filled with what is likeliest there
};
/// A mask: what may stand there, the most probable first.
using FilledMask = std::vector<MaskFilling>;

struct FillOptions {
  int64_t top = 5;         // tokens for a mask
  std::string mask{};      // how texts write a mask; where empty, as "[MASK]" or "<mask>"
  int64_t first_line = 0;  // the number of the first text in messages, less one
};
/// What the masks of each text hide; nothing of a text without a mask. Of a model with HeadTask::masked_words. Throws
/// FormatError for a text longer than the model takes, and for a model whose tokenizer has neither token.
std::vector<std::vector<FilledMask>> fill_masks(const StoredModel& model, const std::vector<std::string>& texts,
                                                const FillOptions& options = {});

// ---------------------------------------------------------------------------------------------- all that is computed

/// The ids that a model reads of a text, with its special tokens; of one that predicts tokens those in front alone.
std::vector<int32_t> reading_ids(const StoredModel& model, const std::string& text);
/// What a translator's decoder takes of a text, from the token that begins it; its end is not among them.
std::vector<int32_t> decoder_ids(const StoredModel& model, const std::string& text);

struct ReadOptions {
  bool want_states = false, want_weights = false;
};
/// What a model computed of L tokens, and of T tokens of its decoder. float32.
struct Reading {
  /// (L, V) of a language model or of one that finds masked words, (T, V) of a translator; (L, classes) or (classes) of
  /// other heads, (L, 2) of one that finds answers. Undefined without a head. Of pictures (heed/picture_reader.h) L is
  /// the class token and the patches.
  Tensor logits{};
  /// (layers + 1, L, E): what enters each layer, then the last states.
  Tensor encoder_states{}, decoder_states{};
  /// (H, Lq, Lk) each, by part and layer from 0: "encoder_0", "decoder_0", "cross_0".
  NamedTensors weights{};
};
/// Whether a model's decoder reads a target beside the text: a translator's does.
bool takes_target(const StoredModel& model);
/// Reads one row of ids as it is given: special tokens must be among them. `target` is what a translator's decoder
/// takes, which no other model has. Throws ShapeError for ids outside the vocabulary and more of them than the model
/// takes.
Reading read_ids(const StoredModel& model, const std::vector<int32_t>& ids, const std::vector<int32_t>& target = {},
                 const ReadOptions& options = {});

}  // namespace heed::inline v0
