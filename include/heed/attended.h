// What a model attends to while it translates or reads a text, with the tokens that queries and keys are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/models.h"
#include "heed/text.h"
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
  AttentionRecord record;       // with the states
  Variable hidden;              // (1, Lt, E) of the decoder
};

/// A text as a language model or a text encoder took it, likewise.
struct SeenText {
  std::string text;
  std::vector<int32_t> ids;
  AttentionRecord record;  // `decoder` of a language model, `encoder` of a text encoder; with the states
  Variable hidden;         // (1, L, E)
  int64_t given = 0;       // so many of ids, the model wrote the rest; 0: all of them
};

/// Called with the tokens that a model has written so far: of a beam search those of the likeliest translation, which
/// may change. What it throws ends the call.
using OnWritten = std::function<void(const std::vector<int32_t>&)>;

/// Translates a text as one sentence with a Transformer, or takes `given` for its translation where that is not empty.
/// Malformed UTF-8 is replaced. Throws UsageError for a text without tokens, ShapeError for more than the model takes,
/// Error where what the model computes is not finite.
SeenTranslation see_translation(const StoredModel& model, const std::string& text, const std::string& given = "",
                                int64_t beam = 5, bool want_vectors = false, const OnWritten& on_written = {});
/// Reads a text with a LanguageModel, and lets it write `generate` tokens more, the likeliest each; or with a
/// TextEncoder, which writes none. Throws likewise.
SeenText see_text(const StoredModel& model, const std::string& text, int64_t generate = 0, bool want_vectors = false,
                  const OnWritten& on_written = {});

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

/// What a map shows of attention, for each query and key.
enum class Measure : uint8_t {
  /// As the softmax gave them.
  weights,
  /// ||a f(x)||, the length of what the head adds to the query's vector from this key: weight times value, behind the
  /// head's part of out_proj (Kobayashi et al. 2020, "Attention is Not Only a Weight", 2.2).
  norms,
  /// (N, 1, L, L), of self-attention: how much of each token is in a position behind layer l, the product of
  /// (mean of heads + I) / 2 of the layers up to it (Abnar and Zuidema 2020, "Quantifying Attention Flow", 3).
  rollout,
  /// Weight times the gradient of the log-probability of what was written by it, in first order what it contributes:
  /// below 0, it speaks against (Chefer et al. 2021, "Generic Attention-model Explainability", 3, before the mean of
  /// heads). Of a text that was read, the log-probability of its tokens but the first.
  gradient,
  /// (1, 1, Lq, Lk), of the whole model: what the token at a key contributes in first order to the log-probability of
  /// what was written at the query's row, the product of its vector in front of the first layer and the gradient by it
  /// (Shrikumar et al. 2016, "Not Just a Black Box", 3). Keys of "Cross" are the source, those of "Decoder" what was
  /// written before. The model is computed once for each row.
  input,
};
/// attention_of() with this measure in place of weights; rollout has nothing for "Cross", input for "Encoder". `seen`
/// must have its vectors. Controls of heads are undone by `gradient`. Throws UsageError for vectors that are missing,
/// for gradients of a text encoder, which writes nothing, of weights in fewer bits than float32's, and under NoGrad.
std::vector<SeenAttention> measure_attention(const SeenTranslation& seen, const StoredModel& model, Measure measure);
std::vector<SeenAttention> measure_attention(const SeenText& seen, const StoredModel& model, Measure measure);

/// A token that a model may write next, and how probable it is.
struct LikelyToken {
  int32_t id = 0;
  double probability = 0;
};
/// Of each row of logits (1, L, V) the `count` likeliest tokens, likeliest first; all where there are fewer.
std::vector<std::vector<LikelyToken>> likeliest_tokens(const Tensor& logits, int64_t count);

/// What each layer would write (the logit lens, LanguageModel::lens_logits): [layer][row], the `count` likeliest tokens
/// that would follow row i of what the decoder or the language model took. The last layer's are what the model says.
using LogitLens = std::vector<std::vector<std::vector<LikelyToken>>>;
LogitLens logit_lens(const SeenTranslation& seen, const StoredModel& model, int64_t count = 5);
/// Throws UsageError for a text encoder, which writes nothing.
LogitLens logit_lens(const SeenText& seen, const StoredModel& model, int64_t count = 5);

/// How much the loss depends on each head: |d loss / d factor| of what the head gives, at 1, in the mean over texts,
/// for the loss per token (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", eq. 2; not divided by the
/// norm of a layer, as they do to prune). (layers, heads) float32 each, by kind as in AttentionRecord; undefined where
/// the model has no layers of a kind.
struct HeadImportance {
  Tensor encoder, decoder, cross;
};
/// Of a LanguageModel that reads these texts. Controls of heads are undone. Throws UsageError for texts of fewer than
/// two tokens, ShapeError for longer ones than the model takes and for weights in fewer bits than float32's.
HeadImportance head_importance(const StoredModel& model, const std::vector<std::string>& texts);
/// Of a Transformer that translates source[i] into target[i]. Throws likewise, for sentences without tokens.
HeadImportance head_importance(const StoredModel& model, const TextPairs& pairs);

}  // namespace heed::inline v0
