// The attention of a model while it translates or reads a text, with the tokens of queries and keys.
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
/// Tokens in readable form, without the leading space; a token that is only a space becomes U+2581. Each sign and each
/// special token is a separate word.
Tokens tokens_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);

/// Labels for figures: a token that continues a word begins with a middle dot (U+00B7). If each token is one character,
/// there are no dots.
std::vector<std::string> marked_labels(Tokens tokens);
std::vector<std::string> marked_labels(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);

/// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stacked(const std::vector<Tensor>& layers);

/// A sentence with its translation and the attention of the model.
struct SeenTranslation {
  std::string text, translation;
  std::vector<int32_t> source;  // ends with eos
  std::vector<int32_t> input;   // of the decoder: begins with bos
  std::vector<int32_t> output;  // of the decoder: ends with eos
  AttentionRecord record;       // with the states
  Variable hidden;              // (1, Lt, E) of the decoder
};

/// A text with the attention of a language model or a text encoder.
struct SeenText {
  std::string text;
  std::vector<int32_t> ids;
  AttentionRecord record;  // `decoder` of a language model, `encoder` of a text encoder; with the states
  Variable hidden;         // (1, L, E)
  int64_t given = 0;       // number of given ids, the model generated the rest; 0: all were given
};

/// Called with the tokens generated so far; in a beam search, with those of the currently most likely translation. An
/// exception ends the call.
using OnWritten = std::function<void(const std::vector<int32_t>&)>;

/// Translates a text as one sentence with a Transformer, or uses `given` as the translation if it is not empty.
/// Malformed UTF-8 is replaced. Throws UsageError for a text without tokens, ShapeError for more tokens than the model
/// takes, Error for results that are not finite.
SeenTranslation see_translation(const StoredModel& model, const std::string& text, const std::string& given = "",
                                int64_t beam = 5, bool want_vectors = false, const OnWritten& on_written = {});
/// Reads a text with a LanguageModel, which then generates `generate` tokens greedily, or with a TextEncoder, which
/// generates none. Throws as see_translation().
SeenText see_text(const StoredModel& model, const std::string& text, int64_t generate = 0, bool want_vectors = false,
                  const OnWritten& on_written = {});

/// Attention of one kind.
struct SeenAttention {
  std::string name;      // "Encoder"
  std::string title;     // a sentence about rows and columns
  Tensor weights;        // (N, H, Lq, Lk)
  Tokens queries, keys;  // Lq, Lk
};
/// "Encoder", "Decoder" and "Cross", as far as the model has such layers. A row of "Cross" is labelled with the token
/// produced at it.
std::vector<SeenAttention> attention_of(const SeenTranslation& seen, const StoredModel& model);
/// "Self-attention".
std::vector<SeenAttention> attention_of(const SeenText& seen, const StoredModel& model);

/// The quantity that a map shows for each query and key.
enum class Measure : uint8_t {
  /// The weights after softmax.
  weights,
  /// ||a f(x)||, the length of the vector that the head adds to the query from this key: weight times value, after the
  /// head's part of out_proj (Kobayashi et al. 2020, "Attention is Not Only a Weight", 2.2).
  norms,
  /// (N, 1, L, L), for self-attention: the share of each token in a position after layer l, the product of (mean of
  /// heads + I) / 2 over the layers up to l (Abnar and Zuidema 2020, "Quantifying Attention Flow", 3).
  rollout,
  /// Weight times the gradient of the output's log-probability: the contribution of the weight in first order. Below 0,
  /// it lowers the probability (Chefer et al. 2021, "Generic Attention-model Explainability", 3, before the mean of
  /// heads). For a text that was only read, the log-probability of its tokens except the first.
  gradient,
  /// (1, 1, Lq, Lk), for the whole model: the first-order contribution of the token at a key to the log-probability of
  /// the token generated at the query's row, which is the product of the key's input vector of the first layer and its
  /// gradient (Shrikumar et al. 2016, "Not Just a Black Box", 3). Keys of "Cross" are the source, those of "Decoder"
  /// the previous output. The model is computed once for each row.
  input,
};
/// attention_of() with this measure instead of weights. rollout has no "Cross", input no "Encoder". `seen` must have
/// its vectors. `gradient` removes head controls. Throws UsageError for missing vectors, and, for measures with
/// gradients, for a text encoder, for weights with fewer bits than float32, and under NoGrad.
std::vector<SeenAttention> measure_attention(const SeenTranslation& seen, const StoredModel& model, Measure measure);
std::vector<SeenAttention> measure_attention(const SeenText& seen, const StoredModel& model, Measure measure);

/// A candidate for the next token and its probability.
struct LikelyToken {
  int32_t id = 0;
  double probability = 0;
};
/// The `count` most likely tokens (all if there are fewer) for each row of logits (1, L, V), most likely first.
std::vector<std::vector<LikelyToken>> likeliest_tokens(const Tensor& logits, int64_t count);

/// The logit lens (LanguageModel::lens_logits): [layer][row], the `count` most likely tokens after row i of the
/// decoder's input, predicted from each layer's states. The last layer has the model's predictions.
using LogitLens = std::vector<std::vector<std::vector<LikelyToken>>>;
LogitLens logit_lens(const SeenTranslation& seen, const StoredModel& model, int64_t count = 5);
/// Throws UsageError for a text encoder.
LogitLens logit_lens(const SeenText& seen, const StoredModel& model, int64_t count = 5);

/// The importance of each head: |d loss / d factor| for a factor on the head's output, at 1, averaged over texts, with
/// the loss per token (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", eq. 2, without their
/// normalisation by layer). (layers, heads) float32 each, by kind as in AttentionRecord; undefined if the model has no
/// layers of a kind.
struct HeadImportance {
  Tensor encoder, decoder, cross;
};
/// For a LanguageModel that reads these texts. Removes head controls. Throws UsageError for texts of fewer than two
/// tokens, ShapeError for texts longer than the model takes and for weights with fewer bits than float32.
HeadImportance head_importance(const StoredModel& model, const std::vector<std::string>& texts);
/// For a Transformer that translates source[i] into target[i]. Throws as above, and UsageError for sentences without
/// tokens.
HeadImportance head_importance(const StoredModel& model, const TextPairs& pairs);

}  // namespace heed::inline v0
