// Layers. Names, arguments and parameter names follow torch.nn if it has them; masks are heed's (true = may attend).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "heed/autograd.h"
#include "heed/functional.h"
#include "heed/kinds.h"
#include "heed/kv_cache.h"

namespace heed::inline v0 {

/// A tree of parameters. Children are members of the derived class, so a module is neither copied nor moved.
class Module {
 public:
  using NamedParameters = std::vector<std::pair<std::string, Variable>>;

  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// "self_attn.in_proj_weight" and so on, in order of registration. A shared parameter appears once.
  NamedParameters named_parameters() const;
  std::vector<Variable> parameters() const;
  int64_t parameter_count() const;
  void zero_grad();
  /// Switches dropout on or off, here and in every child.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Converts every parameter; gradients are dropped.
  void to(DType dtype);
  /// Keeps matrices (of products and embeddings) as f16, bf16 or q8 and everything else as float32. For inference
  /// (under NoGrad): takes half or a quarter of the memory and of the memory traffic per row. Sums stay in float32, so
  /// a model stored in this dtype gives the same bits. A matrix whose rows are not a multiple of q8's block keeps its
  /// dtype. f32 converts everything back, as to(DType::f32).
  void keep_matrices_as(DType dtype);
  /// Copies values by name and converts the dtype. Throws FormatError naming a tensor that is missing, unknown or of
  /// the wrong shape.
  void load(const std::vector<std::pair<std::string, Tensor>>& values);
  /// Uses the tensors as parameters without a copy, in any floating dtype; the memory may be a mapped file. Throws as
  /// load().
  void adopt(const std::vector<std::pair<std::string, Tensor>>& values);
  /// In order of registration.
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }

  /// Searches the files that the parameters came from for the first number that is not finite, for check_finite():
  /// their names of tensors may differ from the module's. Returns none if there is none.
  using SearchFiles = std::function<std::optional<std::string>()>;
  void set_search_files(SearchFiles search) { search_files_ = std::move(search); }
  const SearchFiles& search_files() const { return search_files_; }

 protected:
  Variable register_parameter(std::string name, Tensor value);
  void register_parameter(std::string name, const Variable& parameter);  // an existing leaf
  void register_module(std::string name, Module& child);  // an empty name adds the child's parameters without a prefix

 private:
  void collect(const std::string& prefix, NamedParameters& into, std::set<const void*>& seen) const;
  bool training_ = true;
  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
  SearchFiles search_files_{};
};

class Linear : public Module {
 public:
  /// weight (out, in) and bias (out) uniform in +-1/sqrt(in).
  Linear(int64_t in_features, int64_t out_features, bool bias = true);
  Variable operator()(const Variable& x) const { return functional::linear(x, weight, bias); }
  Variable weight, bias;
};

class Embedding : public Module {
 public:
  /// weight (num_embeddings, embedding_dim) normal with standard deviation `deviation`.
  Embedding(int64_t num_embeddings, int64_t embedding_dim, double deviation = 1);
  Variable operator()(const Tensor& ids, double factor = 1) const { return functional::embedding(ids, weight, factor); }
  Variable weight;
};

class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5, bool bias = true);
  Variable operator()(const Variable& x) const { return functional::layer_norm(x, weight, bias, epsilon_); }
  double epsilon() const { return epsilon_; }
  Variable weight, bias;

 private:
  double epsilon_;
};

class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t width, double epsilon = 1e-5);
  Variable operator()(const Variable& x) const { return functional::rms_norm(x, weight, epsilon_); }
  double epsilon() const { return epsilon_; }
  Variable weight;

 private:
  double epsilon_;
};

/// Fixed positions, sin on even and cos on odd columns. Vaswani et al. 2017, 3.5. No parameters.
class SinusoidalPositions {
 public:
  /// Stores the first `held` rows; others are computed on request, with the same bits.
  explicit SinusoidalPositions(int64_t width, int64_t held = 256);
  /// Rows [begin, begin + length) as (length, width). May be called from any number of threads.
  Tensor rows(int64_t begin, int64_t length, DType dtype) const;

 private:
  int64_t width_;
  Tensor table_;  // (held, width), float64
};

/// Options of heads beyond softmax(q k' / sqrt(d)) v.
struct HeadOptions {
  bool norm = false;           // RMSNorm over each head of q and k, before rotation (Henry et al. 2020; Qwen 3)
  double norm_epsilon = 1e-6;  // epsilon of this norm
  Window window{};             // of self-attention, also in step()
  double softcap = 0;          // as AttentionOptions::softcap
  bool sinks = false;          // learned AttentionOptions::sinks: a head may attend to nothing (gpt-oss)
};

struct MultiheadAttentionOptions {
  int64_t embed_dim = 0;
  int64_t num_heads = 1;
  int64_t kv_heads = 0;  // 0: num_heads; fewer is grouped-query attention
  int64_t head_dim = 0;  // 0: embed_dim / num_heads (narrow heads); embed_dim makes them wide
  bool bias = true;      // of the q, k and v projections
  bool out_bias = true;
  int64_t kdim = 0, vdim = 0;  // width of key and value inputs; 0: embed_dim
  double dropout = 0;          // of the weights, in training
  std::optional<double> scale{};
  bool rotary = false;  // rotate q and k by position (self-attention)
  Rotary rotary_options{};
  HeadOptions heads{};
};

/// Queries, keys and values of a layer's heads, after rotation: q (B, H, Lq, D), k and v (B, Hkv, Lk, D).
struct HeadVectors {
  Tensor q, k, v;
};

/// The recordings to make of one attention call, and the recorded tensors.
struct HeadRecord {
  bool want_weights = true, want_vectors = false;
  WeightsSelection selection{};  // heads and rows of the weights; top_p must be 1
  Tensor weights{};              // (B, num_heads, Lq, Lk), or the part in `selection`
  HeadVectors vectors{};         // views of the projections
};

/// The attention of a head: as learned, uniform over every visible key, to the previous token alone (the first token
/// attends to itself), or to the token itself alone.
enum class HeadPattern : uint8_t { learned, uniform, previous, own };

/// Interventions on the heads of an attention module. Everything computed from the heads changes accordingly.
struct HeadControl {
  /// (num_heads): a factor on the output of each head, before out_proj; 0 switches a head off. Absent: 1. Its gradient
  /// at 1 measures the importance of the head (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", eq. 2).
  Variable scales{};
  /// The pattern of each head; absent: learned. Other patterns are computed without gradients. Records have the
  /// pattern's weights.
  std::vector<HeadPattern> patterns{};
  /// (B, Lq, num_heads * head_dim): added to the outputs of the heads after `scales`. With zeros, its gradient is that
  /// of these outputs, and its product with a value is the gradient of the value's weight. Absent: nothing.
  Variable added{};
};

/// Every row of (B, L, .) is a token.
struct WholeBatch {};
/// lengths (B) int32: keys and values of entry b from lengths[b] on are padding.
struct PaddedKeys {
  Tensor lengths;
};
/// Inputs are (1, T, .) with the sentences concatenated; offsets (B + 1) int32 as in AttentionOptions.
struct PackedTokens {
  Tensor q_offsets, k_offsets;
};

/// Vaswani et al. 2017, 3.2.2. Parameters as in torch.nn.MultiheadAttention: in_proj_weight (q, k and v rows stacked)
/// or q_proj_weight, k_proj_weight, v_proj_weight when kdim or vdim differ; in_proj_bias; out_proj.
class MultiheadAttention : public Module {
 public:
  explicit MultiheadAttention(const MultiheadAttentionOptions& options);
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, double dropout = 0)
      : MultiheadAttention(
            MultiheadAttentionOptions{.embed_dim = embed_dim, .num_heads = num_heads, .dropout = dropout}) {}

  struct Call {
    Causal causal = Causal::none;
    Tensor mask{};            // as AttentionOptions::mask
    Variable learned_mask{};  // instead of `mask`: an additive one with a gradient
    /// The layout of the inputs' rows. With SplitRows all ranks make the call, and only self-attention is supported.
    std::variant<WholeBatch, PaddedKeys, PackedTokens, functional::SplitRows> tokens{};
    const functional::SplitRows* split() const { return std::get_if<functional::SplitRows>(&tokens); }
    Tensor positions{};  // (L) or (B, L) int32, for rotary self-attention only; absent: those of the options
  };
  /// query (B, Lq, E), key (B, Lk, kdim), value (B, Lk, vdim) -> (B, Lq, E). Rank 2 inputs are one batch entry.
  /// Passing one variable for all three uses a single product. Throws ShapeError for inputs that do not fit, and for a
  /// record of packed tokens or split rows.
  Variable operator()(const Variable& query, const Variable& key, const Variable& value, const Call& call,
                      HeadRecord* record = nullptr) const;
  Variable operator()(const Variable& query, const Variable& key, const Variable& value) const {
    return (*this)(query, key, value, Call{});
  }
  /// Causal self-attention of x (B, L, E), which follows the cached positions: appends its keys and values to the
  /// cache, then attends to all of them. An undefined cache is created; a full one grows. For decoding, under NoGrad.
  /// `mask` as Call::mask, over all keys.
  Variable step(const Variable& x, KVCache& cache, const Tensor& mask = {}) const;
  /// The same for B texts of different lengths: x (B, 1, E) has one token of each; each text has its own cache.
  Variable step(const Variable& x, std::span<KVCache* const> caches) const;
  /// Keys and values of a memory (B, Lk, E), projected once for many queries (cross-attention while decoding).
  KVCache project_memory(const Variable& memory) const;
  /// Attention of query (B, Lq, E) to the result of project_memory() -> (B, Lq, E).
  Variable attend_memory(const Variable& query, const KVCache& memory, const PaddedKeys& keys,
                         HeadRecord* record = nullptr) const;

  /// Applies `control` to all later calls; {} removes it. Throws ShapeError if it does not have num_heads heads. Calls
  /// throw ShapeError for patterns while gradients are recorded or with split rows, for `previous` and `own` in
  /// cross-attention, and if `added` does not have the shape of the heads' outputs.
  void control_heads(HeadControl control);

  const MultiheadAttentionOptions& options() const { return options_; }
  Variable in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear out_proj;
  std::unique_ptr<RMSNorm> q_norm, k_norm;  // of the heads, if options().heads.norm
  Variable sinks;                           // (num_heads), if options().heads.sinks

 private:
  struct Projections;
  Projections project_self(const Variable& x, const std::optional<Rotary>& turned) const;
  AttentionOptions attention_options(Causal causal) const;
  AttentionOptions inference_options(Causal causal) const;
  Variable attend(const functional::PackedHeads& q, const functional::PackedHeads& k, const functional::PackedHeads& v,
                  KVCache& cache, AttentionOptions options) const;
  enum class Heads : uint8_t { self, cross, split };
  Variable controlled(const Variable& y, const KVCache& memory, const AttentionOptions& how, Heads kind,
                      HeadRecord* record) const;
  void replace_heads(const Tensor& y, const Tensor& keys, const Tensor& values, const AttentionOptions& how,
                     HeadRecord* record) const;
  MultiheadAttentionOptions options_;
  std::unique_ptr<const HeadControl> control_;  // null: none
};

/// linear2(activation(linear1(x))); Vaswani et al. 2017, 3.3. A gated one (Shazeer 2020, eq. 6) joins gate and up in
/// linear1, (2 * hidden, width).
class FeedForward : public Module {
 public:
  FeedForward(int64_t width, int64_t hidden, FeedForwardKind kind = {}, double dropout = 0, bool bias = true);
  /// `rows`: the rows of the whole batch that x has; dropout is that of the whole batch.
  Variable operator()(const Variable& x, const functional::SplitRows* rows = nullptr) const;
  FeedForwardKind kind() const { return kind_; }
  double dropout() const { return dropout_; }
  Linear linear1, linear2;

 private:
  FeedForwardKind kind_;
  double dropout_;
};

enum class NormKind : uint8_t { layer_norm, rms_norm };

/// LayerNorm or RMSNorm by choice.
class Norm : public Module {
 public:
  Norm(NormKind kind, int64_t width, double epsilon, bool bias = true);  // bias: of layer_norm
  Variable operator()(const Variable& x) const;
  const LayerNorm* layer_norm() const { return layer_.get(); }  // one of the two, the other is null
  const RMSNorm* rms_norm() const { return rms_.get(); }

 private:
  std::unique_ptr<LayerNorm> layer_;
  std::unique_ptr<RMSNorm> rms_;
};

struct TransformerLayerOptions {
  int64_t d_model = 512;
  int64_t nhead = 8;
  int64_t kv_heads = 0;  // 0: nhead
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;           // of each sub-layer's output
  double attention_dropout = 0;   // of the attention weights
  double activation_dropout = 0;  // inside the feed-forward
  FeedForwardKind activation{};
  NormKind norm = NormKind::layer_norm;
  double norm_epsilon = 1e-5;
  bool norm_first = false;  // pre-norm; post-norm is the paper's
  bool norm_after = false;  // with norm_first: each sub-layer's output is normalised, too (Gemma 2)
  bool bias = true;
  std::optional<bool> qkv_bias{}, out_bias{};  // of attention's projections; absent: bias
  bool norm_bias = true;                       // of layer_norm
  bool rotary = false;                         // rotate q and k of self-attention
  Rotary rotary_options{};
  int64_t head_dim = 0;           // 0: d_model / nhead
  std::optional<double> scale{};  // of the scores; absent: 1/sqrt(head_dim)
  HeadOptions heads{};            // of self-attention
};

/// The weights that a record keeps, by indices in any order; an empty list means all.
struct RecordedPart {
  std::vector<int64_t> layers{}, heads{}, rows{};  // rows are queries
};

/// Records the attention weights of each layer, (B, H, Lq, Lk). They take a second pass after the fused kernel, over
/// the recorded part only; docs/looking_at_attention.md has the cost. Without a record there is no cost.
struct AttentionRecord {
  std::vector<Tensor> encoder, decoder, cross;
  /// The weights of the chosen layers are (B, heads, rows, Lk), in the order of the lists; those of other layers are
  /// undefined. Throws ShapeError for a layer, head or row that does not exist.
  RecordedPart part{};
  /// Whether to keep q, k and v. They are views of the projections: nothing is computed or copied, but (H + 2 Hkv) D
  /// numbers per token and layer stay in memory as long as the record.
  bool want_vectors = false;
  std::vector<HeadVectors> encoder_vectors{}, decoder_vectors{}, cross_vectors{};
  /// Whether to keep the input of each layer, (B, L, E). Nothing is copied.
  bool want_states = false;
  std::vector<Tensor> encoder_states{}, decoder_states{};
  Tensor encoder_last{};  // with want_states: the output of an encoder's last layer, before its last norm
  /// Whether to keep the input of the first layer, (B, L, E), as a leaf with a gradient. Operations before it then get
  /// no gradients.
  bool want_inputs = false;
  Variable encoder_input{}, decoder_input{};
};

class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  /// x (B, L, E) -> (B, L, E). `call` as for attention (causal makes it a decoder-only block).
  Variable operator()(const Variable& x, const MultiheadAttention::Call& call, HeadRecord* record = nullptr) const;
  Variable operator()(const Variable& x) const { return (*this)(x, {}); }
  /// Causal decoding: x (B, L, E) follows the cached positions.
  Variable step(const Variable& x, KVCache& cache) const;
  Variable step(const Variable& x, std::span<KVCache* const> caches) const;

  const TransformerLayerOptions& options() const { return options_; }
  MultiheadAttention self_attn;
  FeedForward feed_forward;  // parameters linear1.*, linear2.*
  Norm norm1, norm2;
  std::unique_ptr<Norm> norm1_after, norm2_after;  // if options().norm_after

 private:
  template <class Attend>
  Variable block(const Variable& x, const functional::SplitRows* rows, Attend&& attend) const;
  TransformerLayerOptions options_;
};

class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  /// x (B, Lq, E), memory (B, Lk, E) -> (B, Lq, E). As in torch.nn, nothing is masked by default: set self.causal.
  Variable operator()(const Variable& x, const Variable& memory, const MultiheadAttention::Call& self,
                      const MultiheadAttention::Call& cross, HeadRecord* self_record = nullptr,
                      HeadRecord* cross_record = nullptr) const;
  /// One step of decoding: x (B * beams, 1, E); memory projected once per sentence, shared by its beams.
  /// `self_mask` as for MultiheadAttention::step.
  Variable step(const Variable& x, KVCache& self, const KVCache& memory, const PaddedKeys& memory_keys,
                HeadRecord* cross_record = nullptr, const Tensor& self_mask = {}) const;

  const TransformerLayerOptions& options() const { return options_; }
  MultiheadAttention self_attn, multihead_attn;
  FeedForward feed_forward;
  Norm norm1, norm2, norm3;

 private:
  template <class SelfAttention, class CrossAttention>
  Variable block(const Variable& x, SelfAttention&& self, CrossAttention&& cross) const;
  TransformerLayerOptions options_;
};

/// A stack of encoder layers with an optional final norm (parameters layers.N.*, norm.*).
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm);
  /// Takes options for each layer; the final norm uses those of the last layer. Throws ShapeError if there are none.
  TransformerEncoder(const std::vector<TransformerLayerOptions>& layers, bool final_norm);
  /// Each layer's attention is appended to record->encoder and record->encoder_vectors.
  Variable operator()(Variable x, const MultiheadAttention::Call& call, AttentionRecord* record = nullptr) const;
  /// Causal decoding: x (B, L, E) follows the cached positions; there is one cache per layer.
  Variable step(Variable x, std::vector<KVCache>& caches) const;
  /// Decodes one token of each of B texts, x (B, 1, E); texts[b] are the caches of text b, one per layer.
  Variable step(Variable x, std::span<std::vector<KVCache>* const> texts) const;
  std::vector<std::unique_ptr<TransformerEncoderLayer>> layers;
  std::unique_ptr<Norm> norm;
};

class TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerLayerOptions& options, int64_t num_layers, bool final_norm);
  /// As TransformerEncoder.
  TransformerDecoder(const std::vector<TransformerLayerOptions>& layers, bool final_norm);
  Variable operator()(Variable x, const Variable& memory, const MultiheadAttention::Call& self,
                      const MultiheadAttention::Call& cross, AttentionRecord* record = nullptr) const;
  std::vector<std::unique_ptr<TransformerDecoderLayer>> layers;
  std::unique_ptr<Norm> norm;
};

}  // namespace heed::inline v0
