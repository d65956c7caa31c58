// Whole models: token ids in, logits, losses or text ids out.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/nn.h"

namespace heed::inline v0 {

/// Everything that decides a Transformer's shape; config.json holds exactly these names.
struct TransformerConfig {
  int64_t vocab_size = 0;         // pieces of the shared vocabulary, or of the target if the source has its own
  int64_t source_vocab_size = 0;  // pieces of the source vocabulary; 0: shared with the target
  int64_t d_model = 512;
  int64_t nhead = 8;
  int64_t num_encoder_layers = 6;
  int64_t num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // embeddings and sub-layer outputs
  double attention_dropout = 0;
  double activation_dropout = 0;
  std::string activation = "relu";  // a name of kFeedForwardKinds
  std::string norm = "layer_norm";  // layer_norm, rms_norm
  bool norm_first = false;
  bool bias = true;
  std::string positions = "sinusoidal";  // sinusoidal, learned, rotary
  int64_t max_positions = 1024;          // longest input or output in tokens
  bool tie_embeddings = true;  // one matrix for target and output, and for the source if it shares the vocabulary
  int32_t pad_id = 0, bos_id = 2, eos_id = 3;  // sources also end with eos

  int64_t source_pieces() const { return source_vocab_size > 0 ? source_vocab_size : vocab_size; }
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const TransformerConfig& config);
/// Transformer(config).parameter_count(), without allocating the parameters. `config` must be valid.
int64_t parameter_count(const TransformerConfig& config);

/// Sentences of different lengths, the input of every model. Padded: ids (B, L) int32 and lengths (B) int32. Packed:
/// ids (1, T) with the sentences concatenated, offsets (B + 1) int32 where each sentence begins, and positions (T)
/// int32 of each token in its sentence. Lists of ids convert to a packed batch: model.translate({{4, 5}, {9}}).
struct TokenBatch {
  Tensor ids, lengths;
  Tensor offsets{}, positions{};

  TokenBatch() = default;
  TokenBatch(Tensor ids, Tensor lengths, Tensor offsets = {}, Tensor positions = {});
  TokenBatch(const std::vector<std::vector<int32_t>>& sentences) : TokenBatch(pack(sentences)) {}
  TokenBatch(std::initializer_list<std::vector<int32_t>> sentences)
      : TokenBatch(pack(std::vector<std::vector<int32_t>>(sentences))) {}
  static TokenBatch pack(const std::vector<std::vector<int32_t>>& sentences);
  static TokenBatch pad(const std::vector<std::vector<int32_t>>& sentences, int32_t pad_id);

  bool is_packed() const { return offsets.defined(); }
  int64_t size() const { return lengths.defined() ? lengths.numel() : 0; }  // sentences
  std::vector<std::vector<int32_t>> sentences() const;
};

/// How a token is drawn from its probabilities: the temperature is applied first, then each cut in this order to what
/// the previous one left. A field without a value has the default in its comment.
struct Sampling {
  std::optional<double> temperature{};  // scores are divided by it; 0: always the most probable token; default 1
  /// Number of most probable tokens to draw from, and any as probable as the last of them; 0, the default: all (Fan et
  /// al. 2018).
  std::optional<int64_t> top_k{};
  /// Fewest tokens whose total probability reaches this; default 1 (Holtzman et al. 2020, eq. 2).
  std::optional<double> top_p{};
  /// At least this share of the greatest probability; default 0 (Nguyen et al. 2024, section 3).
  std::optional<double> min_p{};
  /// Tokens whose -log p is nearest to the entropy, until their total probability reaches this; default 1 (Meister et
  /// al. 2023, "Locally Typical Sampling").
  std::optional<double> typical_p{};
  std::optional<double> epsilon_cutoff{};  // at least this probability; default 0 (Hewitt et al. 2022, section 4.1)
  std::optional<double> eta_cutoff{};  // at least min(eta, sqrt(eta) exp(-entropy)); default 0 (Hewitt, section 4.2)
  std::optional<uint64_t> seed{};      // default 0
};
/// Name of the first field that has a value; null if none has.
const char* first_given(const Sampling& sampling);
/// Whether every draw is the most probable token: temperature 0, or top_k 1.
bool always_greedy(const Sampling& sampling);
/// Throws UsageError if the temperature is 0, which takes the most probable token, and another field has a value.
void expect_effect(const Sampling& sampling, const std::string& operation);
/// Sampling for readable text, used if neither the caller nor the model's directory sets any.
inline constexpr Sampling kReadableSampling{.temperature = 0.8, .top_k = 40, .top_p = 0.95};
/// Throws ShapeError naming the field, its value and the permitted range; `operation` begins the message.
void validate(const Sampling& sampling, const std::string& operation);

/// A sequence of tokens, and the bias added to the score of its last token after the others.
struct SequenceBias {
  std::vector<int32_t> ids{};
  double bias = 0;
};

/// After `start` generated tokens, the score s of an end token becomes s + |s| (factor^n - 1), where n is the number of
/// tokens beyond `start`.
struct LengthDecay {
  int64_t start = 0;
  double factor = 1;
};

/// Rules that change the scores of the next token before one is chosen. They run in the order of the members, as in
/// Hugging Face's transformers. Beam search applies them to log-probabilities, sampling and greedy search to logits.
/// "The text" includes the prompt, or the start token of a translation. Members without a value do nothing.
struct TokenRules {
  std::vector<SequenceBias> sequence_bias{};
  /// Scores of tokens in the source (language model: the prompt) are multiplied by this where positive and divided by
  /// it where negative.
  std::optional<double> encoder_repetition_penalty{};
  /// Scores of tokens in the text are divided by this where positive and multiplied by it where negative. (Keskar et
  /// al. 2019, section 4.1, always divide, which makes tokens with a negative score more probable.)
  std::optional<double> repetition_penalty{};
  std::optional<int64_t> no_repeat_ngram_size{};          // no n-gram of this size occurs twice in the text
  std::optional<int64_t> encoder_no_repeat_ngram_size{};  // none is copied from the source (the prompt)
  std::vector<std::vector<int32_t>> bad_words{};  // forbidden sequences of tokens; one of a single end token is ignored
  std::optional<int64_t> min_length{};            // tokens of the text before it may end, prompt included
  std::optional<int64_t> min_tokens{};            // generated tokens before it may end; replaces min_length
  std::optional<int32_t> first_token{};           // the token after the start token, or after a prompt of one token
  std::vector<int32_t> last_tokens{};             // the last token that fits is one of these
  bool finite_scores = false;                     // scores of -infinity become the lowest finite number
  std::optional<LengthDecay> length_decay{};
  std::vector<int32_t> never{};        // forbidden tokens
  std::vector<int32_t> never_first{};  // forbidden as the first token (as the second if first_token is set)
  std::optional<bool> renormalize{};   // normalise probabilities over the tokens that the rules left
};
/// Throws ShapeError naming the member, its value and the permitted range; `operation` begins the message.
void validate(const TokenRules& rules, const std::string& operation);

/// Features of a Transformer beyond TransformerConfig, for third-party models.
struct TransformerDetails {
  /// Options of each layer, in place of those that the configuration sets for all. Without decoder layers the model
  /// only encodes.
  std::vector<TransformerLayerOptions> encoder{}, decoder{};
  bool encoder_norm = false, decoder_norm = false;  // after the last layer
  double embedding_factor = 1;                      // of the embeddings that enter the first layer
  std::optional<double> embedding_norm{};           // epsilon of a LayerNorm after embeddings and positions
  int32_t padding_id = -1;                          // of functional::embedding
  bool one_embedding = false;                       // shared by source and target, even if the output has its own
  Tensor fixed_positions{};                         // (position_offset + max_positions, E), added to the embeddings
  int64_t position_offset = 0;                      // row of position 0 in learned or fixed positions
  /// Padding token: takes row position_offset - 1 and is skipped when positions are counted; -1: none.
  int32_t unnumbered_id = -1;
  int64_t relative_buckets = 0;  // buckets of relative_position_bias, one table per stack; 0: none
  int64_t relative_distance = 128;
  double state_factor = 1;     // multiplies the last states before the output
  bool logit_bias = false;     // true: add a bias (V) to the logits
  int64_t classes = 0;         // number of text classes that the head scores instead of the next token; 0: none
  bool has_head = true;        // false: the model has states but no logits
  std::string missing_head{};  // the reason, to follow "a model ", if files lack the head; see PretrainedHead::missing
};

/// When beam search stops, once it has as many finished translations as beams.
enum class EarlyStopping : uint8_t {
  when_full,  // at once
  heuristic,  // when the best open one, at its current length, scores no better than the worst finished one
  never       // when no open one can beat the worst finished one at any length
};

/// A field without a value has the default in its comment.
struct BeamOptions {
  static constexpr int64_t kBeam = 5;
  static constexpr double kLengthPenalty = 1.4;

  std::optional<int64_t> beam{};  // default kBeam; 1 is greedy
  /// Score = log p / length^length_penalty, where the length includes the end token; default kLengthPenalty. With 1,
  /// translations are 2 % shorter than the references on spa-eng and Multi30k; kLengthPenalty costs no BLEU there
  /// (recipes/*.log).
  std::optional<double> length_penalty{};
  std::optional<int64_t> max_length{};  // tokens, including the end; 0, the default: 2 * source length + 10
  int64_t n_best = 1;
  bool want_alignment = false;
  /// If set, n_best translations are sampled token by token instead of searched, and `beam` is ignored.
  std::optional<Sampling> sampling{};
  std::vector<uint64_t> streams{};  // random stream of each source; equal streams draw alike; empty: 0, 1, ...
  std::optional<EarlyStopping> early_stopping{};  // default when_full
  TokenRules rules{};
  std::optional<int32_t> start{};              // the token before a translation; default the model's bos_id
  std::optional<std::vector<int32_t>> ends{};  // tokens that end a translation; default the model's eos_id
  /// If not empty, a setting of the model's directory that heed does not support: translate() throws UsageError with
  /// it.
  std::string refused{};
  /// Returns true if the translation ends with its last token, which remains part of it. Called from several threads.
  std::function<bool(const std::vector<int32_t>&)> is_end{};
  /// Called after each step for each source that is still open, with its index and its most likely translation so far.
  std::function<void(size_t, const std::vector<int32_t>&)> on_step{};
};

struct Hypothesis {
  std::vector<int32_t> ids;  // without begin and end tokens
  double log_probability = 0;
  double score = 0;                              // log_probability / length^length_penalty
  std::vector<float> token_log_probabilities{};  // of each of ids, then of the end; sum: log_probability
  std::optional<int32_t> end{};                  // the end token; none if cut off or ended by BeamOptions::is_end
  Tensor alignment{};  // (target length + 1, source length): cross-attention of the last layer, mean of heads
};

/// The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017).
class Transformer : public Module {
 public:
  explicit Transformer(const TransformerConfig& config);
  /// A model with `details`. From `config` it takes the vocabulary sizes, the width, the numbers of layers, the kind of
  /// positions and the ids of special tokens. Its sources are complete: translate(), score() and loss() add nothing to
  /// them. Throws ShapeError.
  Transformer(const TransformerConfig& config, TransformerDetails details);
  const TransformerConfig& config() const { return config_; }
  /// The features beyond config(), if any.
  const std::optional<TransformerDetails>& details() const { return details_; }

  /// source (B, Ls) -> memory (B, Ls, E). Source sentences end with eos. Packed -> (1, T, E), without a record.
  Variable encode(const TokenBatch& source, AttentionRecord* record = nullptr) const;
  /// target (B, Lt) begins with bos -> hidden states (B, Lt, E), to be multiplied by output_weight(). `memory` is
  /// encode(source). Both batches are padded or both packed; packed -> (1, T, E).
  Variable decode(const TokenBatch& target, const Variable& memory, const TokenBatch& source,
                  AttentionRecord* record = nullptr) const;
  /// texts (B, L) -> hidden states (B, L, E) of the decoder if it reads the same text as the encoder, after bos_id and
  /// without its last token, as in BART. Packed -> (1, T, E).
  Variable decode_again(const TokenBatch& texts) const;
  /// Mean loss over the target tokens. loss() adds bos and eos to the sentences, as translate() and score() do.
  /// Computed packed if `source` is packed, else padded. With options.r_drop each pair is computed twice and counted
  /// twice in `parts`.
  Variable loss(const TokenBatch& source, const TokenBatch& target, const functional::CrossEntropyOptions& options = {},
                functional::LossParts* parts = nullptr) const;
  /// Logits (B, Lt, V).
  Variable logits(const TokenBatch& source, const TokenBatch& target) const;
  /// Beam search for each sentence, best first; beam 1 is greedy. Results do not depend on the other sentences of the
  /// batch, except for rounding. Throws ShapeError for options out of range, Error for a logit that is not finite.
  std::vector<std::vector<Hypothesis>> translate(const TokenBatch& source, const BeamOptions& options = {}) const;

  /// Probability of given translations: target[i], without begin and end tokens, for source[i]. The score equals that
  /// of the same translation in translate(). Uses options.length_penalty and options.want_alignment only. Throws
  /// ShapeError for translations that do not fit, Error for a logit that is not finite.
  std::vector<Hypothesis> score(const TokenBatch& source, const TokenBatch& target,
                                const BeamOptions& options = {}) const;

  /// Whether the model has a head that predicts tokens.
  bool has_logits() const;
  /// Logits (..., V) for states (..., E) of decode(). Throws UsageError without a head that predicts tokens.
  Variable logits_of(const Variable& states) const;
  /// Scores (B, C) of the details().classes classes. As in BART, the state of decode_again() at the last end token goes
  /// through a tanh layer. Throws UsageError if the model has no classification
  /// head, ShapeError for a text without an end token.
  Variable class_scores(const TokenBatch& texts) const;
  /// Logits (..., V) of states (..., E) between two layers, as AttentionRecord::decoder_states has them: what the model
  /// would write if no layer followed, by its last norm and its output (the logit lens; nostalgebraist 2020,
  /// "interpreting GPT: the logit lens").
  Variable lens_logits(const Variable& states) const;
  const Variable& output_weight() const { return output_.defined() ? output_ : target_embedding(); }
  const Variable& target_embedding() const { return target_.defined() ? target_ : source_; }

 private:
  friend class DecodingModel;
  struct Stacks;
  Transformer(const TransformerConfig& config, std::optional<TransformerDetails> details, const Stacks& stacks);
  Variable embed_source(const TokenBatch& batch) const;
  Variable embed_target(const TokenBatch& batch, int64_t first_position) const;
  Variable embed(const TokenBatch& batch, const Variable& table, const Variable& learned, const LayerNorm* norm,
                 int64_t first_position) const;
  Tensor decoder_bias(int64_t position) const;
  const Transformer& expect_writing() const;
  std::vector<KVCache> memory_of(const std::vector<std::vector<int32_t>>& sentences) const;
  TransformerConfig config_;
  std::optional<TransformerDetails> details_;
  Variable source_, target_, output_;             // (pieces, E); target and output undefined where tied
  Variable source_positions_, target_positions_;  // (max_positions, E), learned only
  Variable source_bias_, target_bias_;            // (relative_buckets, H)
  Variable fixed_positions_, logit_bias_;
  std::unique_ptr<Linear> class_dense_, class_output_;
  std::unique_ptr<LayerNorm> source_norm_, target_norm_;
  SinusoidalPositions sinusoidal_;
  std::unique_ptr<TransformerEncoder> encoder_;
  std::unique_ptr<TransformerDecoder> decoder_;
};

/// Beam search with an ensemble: probabilities and alignments are means over the models. With one model the result is
/// that of its translate(). Throws as translate() does, and ShapeError if the models have different vocabularies.
std::vector<std::vector<Hypothesis>> translate(std::span<const Transformer* const> models, const TokenBatch& source,
                                               const BeamOptions& options = {});
/// Transformer::score with an ensemble.
std::vector<Hypothesis> score(std::span<const Transformer* const> models, const TokenBatch& source,
                              const TokenBatch& target, const BeamOptions& options = {});

/// Throws Error if any of `values` (float32), which `model` computed, is not finite; `what` names one of them ("a
/// logit"). The message names the first tensor that is not finite, and its file: of those that `model` was loaded from,
/// else of its parameters. They are only searched in this case.
void check_finite(const char* operation, const char* what, const Tensor& values, const Module& model);

/// Everything that decides a LanguageModel's shape; config.json holds exactly these names. The defaults are those of
/// the smallest GPT-2 (Radford et al. 2019, table 2).
struct LanguageModelConfig {
  int64_t vocab_size = 0;
  int64_t d_model = 768;
  int64_t nhead = 12;
  int64_t num_kv_heads = 0;  // 0: nhead; fewer is grouped-query attention (Ainslie et al. 2023)
  int64_t num_layers = 12;
  int64_t dim_feedforward = 3072;
  double dropout = 0.1;  // embeddings and sub-layer outputs
  double attention_dropout = 0;
  double activation_dropout = 0;
  std::string activation = "gelu";  // a name of kFeedForwardKinds
  std::string norm = "layer_norm";  // layer_norm, rms_norm
  bool norm_first = true;
  bool bias = true;                   // of all linear layers and of layer_norm
  std::string positions = "learned";  // sinusoidal, learned, rotary
  int64_t max_positions = 1024;       // tokens that a prediction may attend to, including the current one
  bool tie_embeddings = true;         // one matrix for input and output
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const LanguageModelConfig& config);
/// LanguageModel(config).parameter_count(), without allocating the parameters. `config` must be valid.
int64_t parameter_count(const LanguageModelConfig& config);

/// Features of a LanguageModel beyond LanguageModelConfig, for third-party models.
struct LanguageModelDetails {
  /// Options of each layer, in place of those that the configuration sets for all: windows, angles and norms may
  /// differ.
  std::vector<TransformerLayerOptions> layers{};
  double embedding_factor = 1;  // of the embeddings that enter the first layer
  double logit_softcap = 0;     // logits become softcap(logits, logit_softcap); 0: no cap
  bool causal = true;           // false: every token attends to all, and no token is predicted
  bool has_head = true;         // false: the model has states but no logits
  std::string missing_head{};   // the reason, to follow "a model ", if files lack the head; see PretrainedHead::missing
  int64_t classes = 0;          // number of text classes that the head scores instead of the next token; 0: none
  int32_t class_padding = -1;   // padding token, skipped at the end of a text when its class is read; -1: none
};

/// A field without a value has the default in its comment.
struct GenerateOptions {
  static constexpr int64_t kMaxTokens = 256;

  std::optional<int64_t> max_tokens{};  // most tokens to generate; default kMaxTokens
  std::optional<int64_t> max_length{};  // most tokens of prompt and output together, if max_tokens is not set
  Sampling sampling{};
  TokenRules rules{};
  uint64_t sample = 0;          // index of the sample; with the seed it decides the draws
  std::vector<int32_t> stop{};  // tokens that end the text; they are not part of it
  /// If not empty, a setting of the model's directory that heed does not support: generate() throws UsageError with it.
  std::string refused{};
  /// Called with each token as soon as it is drawn; returning false ends the text after it.
  std::function<bool(int32_t)> on_token{};
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const GenerateOptions& options);

/// A decoder-only Transformer (Radford et al. 2019): each token is predicted from those before it. Matrices are
/// initialised from a normal distribution with standard deviation 0.02, those that write to the residual stream with
/// 0.02 / sqrt(2 * num_layers); biases with 0. With sinusoidal positions, embeddings are initialised with standard
/// deviation 1 / sqrt(d_model) and multiplied by sqrt(d_model).
class LanguageModel : public Module {
 public:
  explicit LanguageModel(const LanguageModelConfig& config);
  /// A model with `details`. From `config` it takes the vocabulary size, the width, the number of layers and the
  /// positions; the layers must agree with them. Throws ShapeError.
  LanguageModel(const LanguageModelConfig& config, LanguageModelDetails details);
  const LanguageModelConfig& config() const { return config_; }
  /// The features beyond config(), if any.
  const std::optional<LanguageModelDetails>& details() const { return details_; }

  /// text (B, L) -> hidden states (B, L, E), to be multiplied by output_weight(). Attention is causal, so padding after
  /// a text does not affect it, and lengths are ignored. Packed -> (1, T, E), without a record. Fills the `decoder`
  /// part of `record`. Throws ShapeError for a text of more than max_positions tokens.
  Variable hidden(const TokenBatch& text, AttentionRecord* record = nullptr) const;
  /// Logits (B, L, V): row i predicts token i + 1.
  Variable logits(const TokenBatch& text) const;
  /// Mean loss over all tokens except the first of each text. With options.r_drop each text is computed twice and
  /// counted twice in `parts`. With `split` the rows are split over ranks, and all ranks make this call with all
  /// tokens. Each rank computes the predictions of its rows; the mean and `parts` cover these only. Texts have at most
  /// split.length() + 1 tokens.
  Variable loss(const TokenBatch& texts, const functional::CrossEntropyOptions& options = {},
                functional::LossParts* parts = nullptr, const functional::SplitRows* split = nullptr) const;
  /// Continues `prompt`, which must not be empty, and returns the new tokens. Keys and values of earlier tokens are
  /// cached. A text may grow beyond max_positions: of a longer prompt the last max_positions tokens are used, and when
  /// that many are cached, the last max_positions / 2 (at least 1) are recomputed at positions 0, 1, ... and the others
  /// dropped. So each token sees at least the max_positions / 2 tokens before it, if there are as many. The same model,
  /// prompt and options give the same tokens for any number of threads. The model must not be in training. Throws
  /// ShapeError for options out of range and ids outside the vocabulary, Error for a logit that is not finite.
  std::vector<int32_t> generate(const std::vector<int32_t>& prompt, const GenerateOptions& options = {}) const;
  /// Continues many prompts, up to `together` at once, which reads the matrices once for one token of each. Text i is
  /// sample options.sample + i; it may differ from the result of a single call by rounding. `on_token` (index of the
  /// text, token) replaces options.on_token, which must be empty. Throws as generate() does, and ShapeError for
  /// `together` below 1.
  std::vector<std::vector<int32_t>> generate(std::span<const std::vector<int32_t>> prompts,
                                             const GenerateOptions& options, int64_t together = 8,
                                             const std::function<bool(size_t, int32_t)>& on_token = {}) const;
  /// Natural log of the probability of each token except the first, given those before it. A text longer than
  /// max_positions is read in sliding windows of max_positions tokens: as in generate(), each token sees at least the
  /// max_positions / 2 (at least 1) tokens before it. The model must not be in training. Throws ShapeError for ids
  /// outside the vocabulary and fewer than 2 tokens, Error for a logit that is not finite.
  std::vector<float> log_probabilities(const std::vector<int32_t>& text) const;

  /// Whether the model has a head that predicts tokens.
  bool has_logits() const { return !details_ || (details_->has_head && details_->classes == 0); }
  /// Logits (..., V) for states (..., E) of hidden(). Throws UsageError if the model has no head that predicts tokens.
  Variable logits_of(const Variable& states) const;
  /// Logits (..., V) of states (..., E) between two layers, as AttentionRecord::decoder_states has them: what the model
  /// would write if no layer followed, by its last norm and its output (the logit lens; nostalgebraist 2020,
  /// "interpreting GPT: the logit lens").
  Variable lens_logits(const Variable& states) const;
  /// Scores (B, C) of the details().classes classes, from the state of each text's last token. `states` are
  /// hidden(texts): (B, L, E), packed (1, T, E). Throws UsageError if the model has no classification head.
  Variable class_scores(const Variable& states, const TokenBatch& texts) const;
  const Variable& output_weight() const { return output_.defined() ? output_ : embedding_; }  // (V, E)
  const Variable& embedding() const { return embedding_; }                                    // (V, E)

 private:
  friend class Generation;
  LanguageModel(const LanguageModelConfig& config, std::optional<LanguageModelDetails> details,
                const std::vector<TransformerLayerOptions>& layers);
  void expect_head(const char* operation) const;
  void expect_predictions(const char* operation) const;
  Variable embed(const TokenBatch& text, int64_t first_position, const functional::SplitRows* split = nullptr) const;
  Variable split_hidden(const TokenBatch& own, const functional::SplitRows& split) const;
  Tensor next_logits(const std::vector<int32_t>& ids, std::vector<KVCache>& caches) const;
  Tensor next_logits(const std::vector<int32_t>& ids, std::span<std::vector<KVCache>* const> texts) const;
  LanguageModelConfig config_;
  std::optional<LanguageModelDetails> details_;
  Variable embedding_, output_;  // (V, E); output undefined where tied
  Variable class_output_;        // (classes, E)
  Variable positions_;           // (max_positions, E), learned only
  SinusoidalPositions sinusoidal_;
  std::unique_ptr<TransformerEncoder> layers_;
};

/// Yields the tokens of LanguageModel::generate one at a time. The model must outlive this object and must not change.
class Generation {
 public:
  /// Throws as generate() does.
  Generation(const LanguageModel& model, const std::vector<int32_t>& prompt, GenerateOptions options = {});
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// The next token; none once the text has ended. Throws Error for a logit that is not finite.
  std::optional<int32_t> next();
  /// Continues with another prompt, as a new Generation would, but with the next random draws. Keeps cached keys and
  /// values of the leading tokens that both prompts share. Throws as the constructor does.
  void restart(const std::vector<int32_t>& prompt);

 private:
  friend class LanguageModel;
  struct State;
  std::unique_ptr<State> state_;
};

/// The attention modules of every layer of a model, by kind as in AttentionRecord. Those of a language model are in
/// `decoder`.
struct AttentionLayers {
  std::vector<MultiheadAttention*> encoder, decoder, cross;
};
AttentionLayers attention_layers(Module& model);

}  // namespace heed::inline v0
