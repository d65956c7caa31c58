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
  int64_t vocab_size = 0;         // pieces of source and target, or of the target where the source has its own
  int64_t source_vocab_size = 0;  // pieces of the source; 0: one vocabulary for both
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
  std::string positions = "sinusoidal";        // sinusoidal, learned, rotary
  int64_t max_positions = 1024;                // longest input or output in tokens
  bool tie_embeddings = true;                  // one matrix for target and output, and for the source of one vocabulary
  int32_t pad_id = 0, bos_id = 2, eos_id = 3;  // sources end with eos, too

  int64_t source_pieces() const { return source_vocab_size > 0 ? source_vocab_size : vocab_size; }
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const TransformerConfig& config);
/// What Transformer(config).parameter_count() is, without taking the memory. `config` must be valid.
int64_t parameter_count(const TransformerConfig& config);

/// Sentences of unlike length: what every model takes. Padded: ids (B, L) int32 and lengths (B) int32. Packed: ids
/// (1, T), sentence after sentence, offsets (B + 1) int32 of where each begins, and positions (T) int32 of each token
/// in its own. Lists of ids become a packed batch where one is asked for: model.translate({{4, 5}, {9}}).
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

/// How a token is drawn from its probabilities: temperature first, then each cut in this order, of what the one before
/// left. A field that is not given has the default in its comment.
struct Sampling {
  std::optional<double> temperature{};  // scores are divided by it; 0: always the most probable token; default 1
  /// Draw among so many of the most probable tokens, and those as probable as the last of them; 0, the default: all
  /// (Fan et al. 2018).
  std::optional<int64_t> top_k{};
  std::optional<double> top_p{};  // the fewest whose probability reaches this; default 1 (Holtzman et al. 2020, eq. 2)
  std::optional<double> min_p{};  // this share of the greatest probability; default 0 (Nguyen et al. 2024, section 3)
  /// Those whose -log p is nearest to the entropy, until their probability reaches this; default 1 (Meister et al.
  /// 2023, "Locally Typical Sampling").
  std::optional<double> typical_p{};
  std::optional<double> epsilon_cutoff{};  // this probability or more; default 0 (Hewitt et al. 2022, section 4.1)
  std::optional<double> eta_cutoff{};      // min(eta, sqrt(eta) exp(-entropy)) or more; default 0 (the same, 4.2)
  uint64_t seed = 0;
};
/// The first of its fields, but for the seed, that is given; null where none is.
const char* first_given(const Sampling& sampling);
/// What a text is drawn with where neither the caller nor the model's directory says it: readable text.
inline constexpr Sampling kReadableSampling{.temperature = 0.8, .top_k = 40, .top_p = 0.95};
/// Throws ShapeError naming the field, its value and the permitted range; `operation` begins the message.
void validate(const Sampling& sampling, const std::string& operation);

/// A row of tokens, and what is added to the score of the last one where the others stand before it.
struct SequenceBias {
  std::vector<int32_t> ids{};
  double bias = 0;
};

/// From so many written tokens on, the score s of tokens that end a text becomes s + |s| (factor^n - 1), where n counts
/// the tokens beyond.
struct LengthDecay {
  int64_t start = 0;
  double factor = 1;
};

/// Rules that change the scores of tokens before one of them is chosen, in the order of the members, which is that of
/// Hugging Face's transformers. A search with several beams applies them to log-probabilities, drawing and greedy
/// search to logits. "The text" has a prompt, or the start token of a translation, in front. Members that are not given
/// do nothing.
struct TokenRules {
  std::vector<SequenceBias> sequence_bias{};
  /// Scores of tokens that are not in the source (of a language model: in the prompt) stay; of those that are, they are
  /// multiplied by it where positive and divided where negative.
  std::optional<double> encoder_repetition_penalty{};
  /// Scores of tokens that are in the text are divided by it where positive and multiplied where negative (Keskar et
  /// al. 2019, section 4.1, which divides only, so that tokens of a negative score become more probable).
  std::optional<double> repetition_penalty{};
  std::optional<int64_t> no_repeat_ngram_size{};          // no row of so many tokens is in the text twice
  std::optional<int64_t> encoder_no_repeat_ngram_size{};  // none is taken from the source (the prompt)
  std::vector<std::vector<int32_t>> bad_words{};  // rows of tokens that are not written; a single end token may be
  std::optional<int64_t> min_length{};            // tokens of the text before it may end
  std::optional<int64_t> min_tokens{};            // written ones; min_length does not count where it is given
  std::optional<int32_t> first_token{};           // what follows the start token, or a prompt of one token
  std::vector<int32_t> last_tokens{};             // one of them is the last token that fits
  bool finite_scores = false;                     // scores of -infinity become the lowest number
  std::optional<LengthDecay> length_decay{};
  std::vector<int32_t> never{};        // tokens that are not written
  std::vector<int32_t> never_first{};  // nor as the first one (where first_token is, as the second)
  std::optional<bool> renormalize{};   // probabilities are those of what the rules left
};
/// Throws ShapeError naming the member, its value and the permitted range; `operation` begins the message.
void validate(const TokenRules& rules, const std::string& operation);

/// What a Transformer has beyond its configuration, as models of other makers do.
struct TransformerDetails {
  /// A layer each, instead of what the configuration says of all. Without a decoder the model encodes alone.
  std::vector<TransformerLayerOptions> encoder{}, decoder{};
  bool encoder_norm = false, decoder_norm = false;  // behind the last layer
  double embedding_factor = 1;                      // of the embeddings that enter the first layer
  std::optional<double> embedding_norm{};           // epsilon of a LayerNorm behind embeddings and positions
  int32_t padding_id = -1;                          // of functional::embedding
  bool one_embedding = false;                       // for source and target, also where the output has its own
  Tensor fixed_positions{};                         // (position_offset + max_positions, E), added to the embeddings
  int64_t position_offset = 0;                      // rows of learned or fixed positions in front of the first
  int32_t unnumbered_id = -1;    // a token that has the last of these rows, and that positions do not count; -1: none
  int64_t relative_buckets = 0;  // of relative_position_bias, a table for each stack; 0: none
  int64_t relative_distance = 128;
  double state_factor = 1;  // of the last states, in front of the output
  bool logit_bias = false;  // added to logits, (V)
  int64_t classes = 0;      // of texts, which its head tells instead of the next token; 0: none
};

/// When a search ends that has as many finished translations as beams.
enum class EarlyStopping : uint8_t {
  when_full,  // at once
  heuristic,  // when the best open one, at its present length, scores no better than the worst finished one
  never       // when none can surpass the worst finished one, whatever its length
};

/// A field that is not given has the default in its comment.
struct BeamOptions {
  static constexpr int64_t kBeam = 5;
  static constexpr double kLengthPenalty = 1.4;

  std::optional<int64_t> beam{};  // default kBeam; 1 is greedy
  /// Score = log p / length^length_penalty; length counts the end token. With 1 translations come out shorter than
  /// references are, by 2 % on spa-eng and on Multi30k; kLengthPenalty, the default, costs no BLEU there
  /// (recipes/*.log).
  std::optional<double> length_penalty{};
  std::optional<int64_t> max_length{};  // tokens, the end counted; 0, the default: 2 * source length + 10
  int64_t n_best = 1;
  bool want_alignment = false;
  /// Where given, n_best translations are drawn, one token after the other, instead of searched; `beam` does not count.
  std::optional<Sampling> sampling{};
  std::vector<uint64_t> streams{};  // of draws, one for each source; equal streams draw alike. None: 0, 1, ...
  std::optional<EarlyStopping> early_stopping{};  // default when_full
  TokenRules rules{};
  std::optional<int32_t> start{};              // the token that a translation begins behind; default the model's bos_id
  std::optional<std::vector<int32_t>> ends{};  // tokens that end one; default the model's eos_id
  /// What a model's directory asks for that heed does not have, where not empty: translate() throws UsageError with it.
  std::string refused{};
  /// Whether a translation ends with its last token, which is then a part of it. Called from several threads.
  std::function<bool(const std::vector<int32_t>&)> is_end{};
  /// Called behind each step for each source that is still open: (its number, the likeliest translation so far).
  std::function<void(size_t, const std::vector<int32_t>&)> on_step{};
};

struct Hypothesis {
  std::vector<int32_t> ids;  // without begin and end
  double log_probability = 0;
  double score = 0;                              // log_probability / length^length_penalty
  std::vector<float> token_log_probabilities{};  // one for each of ids, and the end's; they sum to log_probability
  std::optional<int32_t> end{};                  // the end token; none where it was cut, or BeamOptions::is_end said so
  Tensor alignment{};  // (target length + 1, source length): cross-attention of the last layer, mean of heads
};

/// The encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017).
class Transformer : public Module {
 public:
  explicit Transformer(const TransformerConfig& config);
  /// A model of `details`: the configuration says pieces, width, the numbers of layers, the kind of positions and the
  /// ids of special tokens. Its sources are complete: nothing is added to those of translate(), score() and loss().
  /// Throws ShapeError.
  Transformer(const TransformerConfig& config, TransformerDetails details);
  const TransformerConfig& config() const { return config_; }
  /// Where it has more than config() says.
  const std::optional<TransformerDetails>& details() const { return details_; }

  /// source (B, Ls) -> memory (B, Ls, E). Source sentences end with eos. Packed -> (1, T, E), and no record.
  Variable encode(const TokenBatch& source, AttentionRecord* record = nullptr) const;
  /// target (B, Lt) begins with bos -> hidden states (B, Lt, E), to be multiplied by output_weight(). `source` is what
  /// `memory` was made of; both batches are padded, or both packed: -> (1, T, E).
  Variable decode(const TokenBatch& target, const Variable& memory, const TokenBatch& source,
                  AttentionRecord* record = nullptr) const;
  /// Mean loss over the target tokens. Sentences are bare, as for translate() and score(): bos and eos are added here.
  /// Computed packed where `source` is, else padded. With options.r_drop each pair goes through twice, and counts twice
  /// in `parts`.
  Variable loss(const TokenBatch& source, const TokenBatch& target, const functional::CrossEntropyOptions& options = {},
                functional::LossParts* parts = nullptr) const;
  /// Logits (B, Lt, V).
  Variable logits(const TokenBatch& source, const TokenBatch& target) const;
  /// Beam search for each sentence, best first; beam 1 is greedy. Results do not depend on what shares the batch
  /// beyond rounding. Throws ShapeError for options out of range, Error where a logit is not finite.
  std::vector<std::vector<Hypothesis>> translate(const TokenBatch& source, const BeamOptions& options = {}) const;

  /// How probable the model finds given translations, without begin and end: target[i] of source[i]. Each gets the
  /// score that it has where translate() finds it. Of the options, length_penalty and want_alignment count. Throws
  /// ShapeError for translations that do not fit, Error where a logit is not finite.
  std::vector<Hypothesis> score(const TokenBatch& source, const TokenBatch& target,
                                const BeamOptions& options = {}) const;

  /// Of states (..., E) that decode() gave: (..., V). Throws UsageError for a model that tells classes instead.
  Variable logits_of(const Variable& states) const;
  /// The scores of details().classes for texts: (B, C). The decoder reads the text that the encoder reads, and its last
  /// state goes through a layer with tanh, as in BART. Throws UsageError for a model that tells no classes.
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

/// Beam search with several models as one (an ensemble): the probability of a token is the mean of those that the
/// models give it, and an alignment the mean of theirs. One model gives what its translate() gives. Throws as that
/// does, and ShapeError where the models have not the same vocabulary.
std::vector<std::vector<Hypothesis>> translate(std::span<const Transformer* const> models, const TokenBatch& source,
                                               const BeamOptions& options = {});
/// Transformer::score with several models as one.
std::vector<Hypothesis> score(std::span<const Transformer* const> models, const TokenBatch& source,
                              const TokenBatch& target, const BeamOptions& options = {});

/// Throws Error where `values` (float32), "a logit" for one, which `model` made, are not all finite. Only then the
/// model's parameters are searched, and the first bad one is named.
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
  int64_t max_positions = 1024;       // tokens that a prediction may look back on, itself included
  bool tie_embeddings = true;         // one matrix for input and output
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const LanguageModelConfig& config);
/// What LanguageModel(config).parameter_count() is, without taking the memory. `config` must be valid.
int64_t parameter_count(const LanguageModelConfig& config);

/// What a LanguageModel has beyond its configuration, as models of other makers do.
struct LanguageModelDetails {
  /// A layer each, instead of what the configuration says of all: windows, angles and norms may differ.
  std::vector<TransformerLayerOptions> layers{};
  double embedding_factor = 1;  // of the embeddings that enter the first layer
  double logit_softcap = 0;     // logits become softcap(logits, it); 0: as they are
  bool causal = true;           // false: each token attends to all, and nothing is predicted
  bool has_head = true;         // false: the model gives states alone
  int64_t classes = 0;          // of texts, which its head tells instead of the next token; 0: none
  int32_t class_padding = -1;   // a token that a text may end with, which its class is not read from
};

/// A field that is not given has the default in its comment.
struct GenerateOptions {
  static constexpr int64_t kMaxTokens = 256;

  std::optional<int64_t> max_tokens{};  // that are written; default kMaxTokens
  std::optional<int64_t> max_length{};  // of the prompt and what is written together, where max_tokens is not given
  Sampling sampling{};
  TokenRules rules{};
  uint64_t sample = 0;          // which of the seed's texts
  std::vector<int32_t> stop{};  // tokens that end the text; they are not part of it
  /// What a model's directory asks for that heed does not have, where not empty: generate() throws UsageError with it.
  std::string refused{};
  /// Called with each token as soon as it is drawn; false ends the text behind it.
  std::function<bool(int32_t)> on_token{};
};
/// Throws ShapeError naming the field, its value and the permitted range.
void validate(const GenerateOptions& options);

/// A decoder-only Transformer (Radford et al. 2019): each token is predicted from those before it. Matrices begin
/// normal with deviation 0.02, those that write to the residual stream with 0.02 / sqrt(2 * num_layers); biases with 0.
/// With sinusoidal positions, embeddings begin with deviation 1 / sqrt(d_model) and are multiplied by sqrt(d_model).
class LanguageModel : public Module {
 public:
  explicit LanguageModel(const LanguageModelConfig& config);
  /// A model of `details`: the configuration says pieces, width, the number of layers and positions, which the layers
  /// must agree with. Throws ShapeError.
  LanguageModel(const LanguageModelConfig& config, LanguageModelDetails details);
  const LanguageModelConfig& config() const { return config_; }
  /// Where it has more than config() says.
  const std::optional<LanguageModelDetails>& details() const { return details_; }

  /// text (B, L) -> hidden states (B, L, E), to be multiplied by output_weight(). Attention is causal, so padding
  /// behind a text changes nothing within it, and lengths are not looked at. Packed -> (1, T, E), and no record.
  /// `record` gets its `decoder` part. Throws ShapeError for more than max_positions tokens of a text.
  Variable hidden(const TokenBatch& text, AttentionRecord* record = nullptr) const;
  /// Logits (B, L, V): row i predicts token i + 1.
  Variable logits(const TokenBatch& text) const;
  /// Mean loss over all tokens but the first of each text, which has nothing before it. With options.r_drop each text
  /// goes through twice, and counts twice in `parts`.
  /// With `split` the tokens that predict are split over ranks, which all make this call with all tokens: computed, and
  /// counted in the mean and in `parts`, are the predictions of this rank's rows. Texts have split.length() + 1 tokens,
  /// or fewer.
  Variable loss(const TokenBatch& texts, const functional::CrossEntropyOptions& options = {},
                functional::LossParts* parts = nullptr, const functional::SplitRows* split = nullptr) const;
  /// Goes on with `prompt`, which must not be empty; returns the new tokens. Keys and values of earlier tokens are
  /// cached. A text may grow beyond max_positions: of a longer prompt the last max_positions tokens count, and whenever
  /// that many are cached, the last max_positions / 2 (1 at least) are read anew at positions 0, 1, ... and the rest is
  /// forgotten. So every token is drawn with at least max_positions / 2 before it in view, as far as there are so many.
  /// The same model, prompt and options give the same tokens, whatever the number of threads. The model must not be in
  /// training. Throws ShapeError for options out of range and ids outside the vocabulary, Error where a logit is not
  /// finite.
  std::vector<int32_t> generate(const std::vector<int32_t>& prompt, const GenerateOptions& options = {}) const;
  /// Goes on with many prompts, up to `together` at once: the matrices are read once for a token of each. Text i is
  /// drawn as sample options.sample + i, and may differ from the one that it is by itself where rounding decides.
  /// `on_token` (text, token) as that of the options, which must be empty. Throws as generate() does, and ShapeError
  /// for `together` below 1.
  std::vector<std::vector<int32_t>> generate(std::span<const std::vector<int32_t>> prompts,
                                             const GenerateOptions& options, int64_t together = 8,
                                             const std::function<bool(size_t, int32_t)>& on_token = {}) const;
  /// The natural log of the probability of each token of a text but the first, given those before it. A text longer
  /// than max_positions is read in windows of so many tokens that slide on: like generate(), each token is predicted
  /// with at least max_positions / 2 (1 at least) before it in view. The model must not be in training. Throws
  /// ShapeError for ids outside the vocabulary and fewer than 2 tokens, Error where a logit is not finite.
  std::vector<float> log_probabilities(const std::vector<int32_t>& text) const;

  /// Of states (..., E) that hidden() gave: (..., V). Throws UsageError for a model that has no such head.
  Variable logits_of(const Variable& states) const;
  /// Logits (..., V) of states (..., E) between two layers, as AttentionRecord::decoder_states has them: what the model
  /// would write if no layer followed, by its last norm and its output (the logit lens; nostalgebraist 2020,
  /// "interpreting GPT: the logit lens").
  Variable lens_logits(const Variable& states) const;
  /// Of states (B, L, E), or packed (1, T, E), that hidden() gave for the texts: the scores of details().classes
  /// (B, C), by the state of each text's last token. Throws UsageError for a model that tells no classes.
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

/// What LanguageModel::generate returns, token by token at the caller's pace. The model must outlive it, and stay as it
/// is.
class Generation {
 public:
  /// Throws as generate() does.
  Generation(const LanguageModel& model, const std::vector<int32_t>& prompt, GenerateOptions options = {});
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// The next token; none where the text has ended. Throws Error where a logit is not finite.
  std::optional<int32_t> next();
  /// Goes on with another prompt, as a new Generation would; draws go on as well. Keys and values of the tokens that it
  /// begins with, as far as they are those in view, are kept. Throws as the constructor does.
  void restart(const std::vector<int32_t>& prompt);

 private:
  friend class LanguageModel;
  struct State;
  std::unique_ptr<State> state_;
};

/// The attention of every layer of a model, by kind as in AttentionRecord: a language model's is `decoder`.
struct AttentionLayers {
  std::vector<MultiheadAttention*> encoder, decoder, cross;
};
AttentionLayers attention_layers(Module& model);

}  // namespace heed::inline v0
