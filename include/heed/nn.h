// Layers. Names, arguments and parameter names are torch.nn's where it has them; masks are heed's (true = may attend).
#pragma once

#include <cstdint>
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
  /// Keeps the matrices, which products and embeddings read, as f16, bf16 or q8 and everything else as float32. For
  /// inference (under NoGrad): half or a quarter of the memory and of what one row has to read; sums stay in float32,
  /// so a model that was stored that way gives the same bits. A matrix whose rows are no whole blocks of q8 keeps its
  /// dtype. f32, as to(DType::f32), widens all again.
  void keep_matrices_as(DType dtype);
  /// Copies values by name, converting the dtype. Throws FormatError naming what is missing, left over or misshapen.
  void load(const std::vector<std::pair<std::string, Tensor>>& values);
  /// Takes the tensors themselves as parameters, of whatever floating dtype, where load() copies: they share their
  /// memory, a mapped file's for one. Throws as load().
  void adopt(const std::vector<std::pair<std::string, Tensor>>& values);
  /// In order of registration.
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }

 protected:
  Variable register_parameter(std::string name, Tensor value);
  void register_parameter(std::string name, const Variable& parameter);  // a leaf that is there already
  void register_module(std::string name, Module& child);  // an empty name adds the child's parameters as one's own

 private:
  void collect(const std::string& prefix, NamedParameters& into, std::set<const void*>& seen) const;
  bool training_ = true;
  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
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
  /// weight (num_embeddings, embedding_dim) normal with deviation `deviation`.
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
  /// Holds the first `held` rows; others are computed when they are asked for, with the same bits.
  explicit SinusoidalPositions(int64_t width, int64_t held = 256);
  /// Rows [begin, begin + length) as (length, width). May be called from any number of threads.
  Tensor rows(int64_t begin, int64_t length, DType dtype) const;

 private:
  int64_t width_;
  Tensor table_;  // (held, width), float64
};

/// What heads may do besides softmax(q k' / sqrt(d)) v.
struct HeadOptions {
  bool norm = false;           // RMSNorm over each head of q and k, before they turn (Henry et al. 2020; Qwen 3)
  double norm_epsilon = 1e-6;  // of it
  Window window{};             // of self-attention, in step() too
  double softcap = 0;          // as AttentionOptions::softcap
  bool sinks = false;          // learned ones, as AttentionOptions::sinks: a head may attend to nothing (gpt-oss)
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

/// What the heads of a layer compared and averaged, rotary turns included: q (B, H, Lq, D), k and v (B, Hkv, Lk, D).
struct HeadVectors {
  Tensor q, k, v;
};

/// What to keep of one attention, and what was kept.
struct HeadRecord {
  bool want_weights = true, want_vectors = false;
  WeightsSelection selection{};  // heads and rows of the weights; top_p must be 1
  Tensor weights{};              // (B, num_heads, Lq, Lk), or what `selection` leaves of it
  HeadVectors vectors{};         // views of the projections
};

/// What a head attends to: what it has learned, or in its place every key that it may see alike, the token before (the
/// first one itself), or itself.
enum class HeadPattern : uint8_t { learned, uniform, previous, own };

/// What is done to the heads of an attention, to see what they are for: whatever is computed from them follows.
struct HeadControl {
  /// (num_heads): a factor of what each head gives, before out_proj; 0 switches a head off. Absent: 1. How the loss
  /// depends on a head is its gradient at 1 (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", eq. 2).
  Variable scales{};
  /// Of each head; absent: learned. Others are computed without gradients. Records hold the weights in their place.
  std::vector<HeadPattern> patterns{};
  /// (B, Lq, num_heads * head_dim): added to what the heads give, behind `scales`. Of zeros, its gradient is that of
  /// what the heads give, and its product with a value that of the value's weight. Absent: nothing.
  Variable added{};
};

/// Every row of (B, L, .) is a token.
struct WholeBatch {};
/// Keys and values of entry b are those before lengths[b], (B) int32; what follows fills up.
struct PaddedKeys {
  Tensor lengths;
};
/// Inputs are (1, T, .), sentence after sentence: (B + 1) int32 of where each begins, as in AttentionOptions.
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
    Variable learned_mask{};  // instead: an additive one with a gradient
    /// Which rows the inputs have. Of rows split over ranks all ranks make the call; self-attention alone.
    std::variant<WholeBatch, PaddedKeys, PackedTokens, functional::SplitRows> tokens{};
    const functional::SplitRows* split() const { return std::get_if<functional::SplitRows>(&tokens); }
    Tensor positions{};  // (L) or (B, L) int32: of rotary self-attention. Absent: its options'
  };
  /// query (B, Lq, E), key (B, Lk, kdim), value (B, Lk, vdim) -> (B, Lq, E). Rank 2 inputs are one batch entry.
  /// The same variable for all three is one product. Throws ShapeError for inputs that do not fit, and where packed
  /// tokens or split rows are to be recorded.
  Variable operator()(const Variable& query, const Variable& key, const Variable& value, const Call& call,
                      HeadRecord* record = nullptr) const;
  Variable operator()(const Variable& query, const Variable& key, const Variable& value) const {
    return (*this)(query, key, value, Call{});
  }
  /// Causal self-attention of x (B, L, E) that stands behind what the cache holds: appends its keys and values, then
  /// attends to all of them. An undefined cache is made for this input; a full one grows. For decoding, under NoGrad.
  /// `mask` as Call::mask, over all keys.
  Variable step(const Variable& x, KVCache& cache, const Tensor& mask = {}) const;
  /// The same of B texts of unlike length: x (B, 1, E), a token of each, behind what its own cache (of one text) holds.
  Variable step(const Variable& x, std::span<KVCache* const> caches) const;
  /// Keys and values of a memory (B, Lk, E), projected once for many queries (cross-attention while decoding).
  KVCache project_memory(const Variable& memory) const;
  /// query (B, Lq, E) over that memory -> (B, Lq, E).
  Variable attend_memory(const Variable& query, const KVCache& memory, const PaddedKeys& keys,
                         HeadRecord* record = nullptr) const;

  /// From now on; {} undoes it, and costs nothing. Throws ShapeError where it is not of num_heads heads, and calls
  /// throw it where it cannot be followed: with patterns while gradients are recorded or of split rows, with `previous`
  /// and `own` in cross-attention, and where `added` has another shape than what the heads give.
  void control_heads(HeadControl control);

  const MultiheadAttentionOptions& options() const { return options_; }
  Variable in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear out_proj;
  std::unique_ptr<RMSNorm> q_norm, k_norm;  // of the heads, where options().heads.norm
  Variable sinks;                           // (num_heads), where options().heads.sinks

 private:
  struct Projections;
  Projections project_self(const Variable& x, const std::optional<Rotary>& turned) const;
  AttentionOptions attention_options(Causal causal) const;
  Variable attend(const functional::PackedHeads& q, const functional::PackedHeads& k, const functional::PackedHeads& v,
                  KVCache& cache, AttentionOptions options) const;
  enum class Heads : uint8_t { self, cross, split };
  Variable controlled(const Variable& y, const KVCache& memory, const AttentionOptions& how, Heads kind,
                      HeadRecord* record) const;
  void replace_heads(const Tensor& y, const Tensor& keys, const Tensor& values, const AttentionOptions& how,
                     HeadRecord* record) const;
  MultiheadAttentionOptions options_;
  std::unique_ptr<const HeadControl> control_;  // null: nothing is done
};

/// linear2(activation(linear1(x))); Vaswani et al. 2017, 3.3. A gated one (Shazeer 2020, eq. 6) has gate and up in
/// linear1, which is (2 * hidden, width) then.
class FeedForward : public Module {
 public:
  FeedForward(int64_t width, int64_t hidden, FeedForwardKind kind = {}, double dropout = 0, bool bias = true);
  /// Where x has `rows` of a whole, with the whole's dropout.
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

/// Which weights a record keeps, by numbers from 0 in any order; an empty list is all of them.
struct RecordedPart {
  std::vector<int64_t> layers{}, heads{}, rows{};  // rows are queries
};

/// What the attention of a layer gave, for those who look: (B, H, Lq, Lk) each, appended per layer. Weights are a
/// second pass behind the fused kernel, over the recorded part alone: docs/looking_at_attention.md has the cost.
/// Passing no record costs nothing.
struct AttentionRecord {
  std::vector<Tensor> encoder, decoder, cross;
  /// Of the chosen layers the weights are (B, heads, rows, Lk), in the order of the lists; those of other layers stay
  /// undefined. Throws ShapeError for a layer, head or row that is not there.
  RecordedPart part{};
  /// Keep q, k and v as well? They are views of projections that are made anyway: nothing is computed or copied, but
  /// (H + 2 Hkv) D numbers a token and layer live as long as the record.
  bool want_vectors = false;
  std::vector<HeadVectors> encoder_vectors{}, decoder_vectors{}, cross_vectors{};
  /// Keep what enters each layer, (B, L, E)? Nothing is copied.
  bool want_states = false;
  std::vector<Tensor> encoder_states{}, decoder_states{};
  Tensor encoder_last{};  // with want_states: what leaves the last layer of an encoder, before its last norm
  /// Keep what enters the first layer, (B, L, E), as a leaf with a gradient? What made it gets none then.
  bool want_inputs = false;
  Variable encoder_input{}, decoder_input{};
};

class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  /// x (B, L, E) -> (B, L, E). `call` as for attention (causal makes it a decoder-only block).
  Variable operator()(const Variable& x, const MultiheadAttention::Call& call, HeadRecord* record = nullptr) const;
  Variable operator()(const Variable& x) const { return (*this)(x, {}); }
  /// Causal decoding: x (B, L, E) stands behind what the cache holds.
  Variable step(const Variable& x, KVCache& cache) const;
  Variable step(const Variable& x, std::span<KVCache* const> caches) const;

  const TransformerLayerOptions& options() const { return options_; }
  MultiheadAttention self_attn;
  FeedForward feed_forward;  // parameters linear1.*, linear2.*
  Norm norm1, norm2;
  std::unique_ptr<Norm> norm1_after, norm2_after;  // where options().norm_after

 private:
  template <class Attend>
  Variable block(const Variable& x, const functional::SplitRows* rows, Attend&& attend) const;
  TransformerLayerOptions options_;
};

class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  /// x (B, Lq, E), memory (B, Lk, E) -> (B, Lq, E). torch.nn masks nothing by itself: pass self.causal.
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
  /// With options for each layer; the last layer's are the final norm's. Throws ShapeError for none.
  TransformerEncoder(const std::vector<TransformerLayerOptions>& layers, bool final_norm);
  /// Each layer's attention is appended to record->encoder and record->encoder_vectors.
  Variable operator()(Variable x, const MultiheadAttention::Call& call, AttentionRecord* record = nullptr) const;
  /// Causal decoding: x (B, L, E) stands behind what the caches, one a layer, hold already.
  Variable step(Variable x, std::vector<KVCache>& caches) const;
  /// A token of each of B texts, x (B, 1, E), whose layers' caches are texts[b].
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
