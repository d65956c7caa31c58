#include <algorithm>
#include <cmath>

#include "heed/nn.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

MultiheadAttentionOptions resolved(MultiheadAttentionOptions o) {
  const auto fail = [](const std::string& message) { throw ShapeError("MultiheadAttention: " + message); };
  if (o.embed_dim < 1 || o.num_heads < 1)
    fail("embed_dim " + std::to_string(o.embed_dim) + " and num_heads " + std::to_string(o.num_heads) +
         " must be 1 or more");
  if (o.head_dim == 0) {
    if (o.embed_dim % o.num_heads)
      fail("embed_dim " + std::to_string(o.embed_dim) + " is not a multiple of " + std::to_string(o.num_heads) +
           " heads; choose another number of heads or set head_dim");
    o.head_dim = o.embed_dim / o.num_heads;
  }
  if (o.kv_heads == 0) o.kv_heads = o.num_heads;
  if (o.kv_heads < 0 || o.num_heads % o.kv_heads)
    fail(std::to_string(o.num_heads) + " query heads are not a multiple of " + std::to_string(o.kv_heads) +
         " key heads");
  if (o.head_dim < 1) fail("head_dim " + std::to_string(o.head_dim) + " must be 1 or more");
  if (o.kdim == 0) o.kdim = o.embed_dim;
  if (o.vdim == 0) o.vdim = o.embed_dim;
  return o;
}

Tensor xavier(int64_t out, int64_t in, int64_t fan_out) {
  const double bound = std::sqrt(6.0 / static_cast<double>(in + fan_out));  // Glorot and Bengio 2010, eq. 16
  return uniform({out, in}, -bound, bound);
}

Variable as_batch(const Variable& x) {
  if (x.shape().rank() == 2) return functional::reshape(x, {1, x.size(0), x.size(1)});
  if (x.shape().rank() != 3)
    throw ShapeError("MultiheadAttention: input " + to_string(x.shape()) + " is not (B, L, E) or (L, E)");
  return x;
}

// Heads packed in x (B, L, width), from column x.offset on, as (B, H, L, size).
Tensor unpacked(const functional::PackedHeads& p) {
  const Tensor& x = p.x.value();
  return x.as_strided({x.size(0), p.heads, x.size(1), p.size}, {x.stride(0), p.size, x.stride(1), 1}, p.offset);
}

// What attention writes for packed queries: y (B, L, heads * size), and weights over `keys` keys where wanted.
AttentionResult packed_result(const functional::PackedHeads& q, const Tensor& y, int64_t keys, HeadRecord* record) {
  AttentionResult result;
  result.out = unpacked({Variable(y), 0, q.heads, q.size});
  if (record && record->want_weights)
    result.weights = record->weights =
        Tensor::empty(record->selection.shape(y.size(0), q.heads, y.size(1), keys), y.dtype());
  return result;
}

Tensor empty_output(const functional::PackedHeads& q) {
  const Tensor& x = q.x.value();
  return Tensor::empty({x.size(0), x.size(1), q.heads * q.size}, x.dtype());
}

}  // namespace

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& options)
    : out_proj(resolved(options).head_dim * options.num_heads, options.embed_dim, options.out_bias),
      options_(resolved(options)) {
  const auto& o = options_;
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  if (o.kdim == o.embed_dim && o.vdim == o.embed_dim) {
    in_proj_weight =
        register_parameter("in_proj_weight", xavier(q_width + 2 * kv_width, o.embed_dim, q_width + 2 * kv_width));
  } else {
    q_proj_weight = register_parameter("q_proj_weight", xavier(q_width, o.embed_dim, q_width));
    k_proj_weight = register_parameter("k_proj_weight", xavier(kv_width, o.kdim, kv_width));
    v_proj_weight = register_parameter("v_proj_weight", xavier(kv_width, o.vdim, kv_width));
  }
  if (o.bias) in_proj_bias = register_parameter("in_proj_bias", constant({q_width + 2 * kv_width}, 0));
  register_module("out_proj", out_proj);
  if (o.heads.norm) {
    if (!in_proj_weight.defined())
      throw ShapeError(
          "MultiheadAttention: heads are normalised in self-attention, and kdim or vdim differ from "
          "embed_dim; leave heads.norm out");
    q_norm = std::make_unique<RMSNorm>(o.head_dim, o.heads.norm_epsilon);
    k_norm = std::make_unique<RMSNorm>(o.head_dim, o.heads.norm_epsilon);
    register_module("q_norm", *q_norm);
    register_module("k_norm", *k_norm);
  }
  if (o.heads.sinks) sinks = register_parameter("sinks", constant({o.num_heads}, 0));
  if (out_proj.bias.defined()) out_proj.bias.value().fill(0);
}

struct MultiheadAttention::Projections {
  functional::PackedHeads q, k, v;
};

// q, k and v of self-attention over x (B, L, E), q and k normalised and turned.
MultiheadAttention::Projections MultiheadAttention::project_self(const Variable& x,
                                                                 const std::optional<Rotary>& turned) const {
  const auto& o = options_;
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  if (!o.heads.norm) {
    Variable qkv = functional::linear(x, in_proj_weight, in_proj_bias);
    if (turned) qkv = functional::rotary(qkv, o.num_heads + o.kv_heads, o.head_dim, *turned);
    return {{qkv, 0, o.num_heads, o.head_dim},
            {qkv, q_width, o.kv_heads, o.head_dim},
            {qkv, q_width + kv_width, o.kv_heads, o.head_dim}};
  }
  const auto project = [&](functional::Span columns, int64_t heads, const RMSNorm* norm) {
    Variable y = functional::linear_slice(x, in_proj_weight, columns, in_proj_bias, columns);
    if (norm) {
      const Dims packed = y.shape();
      y = functional::reshape((*norm)(functional::reshape(y, {x.size(0), x.size(1), heads, o.head_dim})), packed);
      if (turned) y = functional::rotary(y, heads, o.head_dim, *turned);
    }
    return functional::PackedHeads{y, 0, heads, o.head_dim};
  };
  return {project({0, q_width}, o.num_heads, q_norm.get()),
          project({q_width, q_width + kv_width}, o.kv_heads, k_norm.get()),
          project({q_width + kv_width, q_width + 2 * kv_width}, o.kv_heads, nullptr)};
}

// Options of a call that records no gradient; `sinks` has its own place in those that do.
AttentionOptions MultiheadAttention::inference_options(Causal causal) const {
  AttentionOptions how = attention_options(causal);
  if (sinks.defined()) how.sinks = sinks.value();
  return how;
}

AttentionOptions MultiheadAttention::attention_options(Causal causal) const {
  return {.causal = causal,
          .window = options_.heads.window,
          .scale = options_.scale,
          .softcap = options_.heads.softcap,
          .dropout = training() ? options_.dropout : 0};
}

Variable MultiheadAttention::operator()(const Variable& query, const Variable& key, const Variable& value,
                                        const Call& call, HeadRecord* record) const {
  const auto& o = options_;
  if (call.positions.defined() && !o.rotary)
    throw ShapeError("MultiheadAttention: positions are for layers with rotary = true; leave them out");
  const Variable q_in = as_batch(query);
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  const int64_t all = q_width + 2 * kv_width;
  const auto project = [&](const Variable& x, const Variable& own, int64_t begin, int64_t end) {
    const bool packed = in_proj_weight.defined();
    return functional::linear_slice(x, packed ? in_proj_weight : own,
                                    packed ? functional::Span{begin, end} : functional::Span{0, end - begin},
                                    in_proj_bias, {begin, end});
  };

  functional::PackedHeads q, k, v;
  if (query.same(key) && query.same(value) && in_proj_weight.defined()) {
    std::optional<Rotary> turned;
    if (o.rotary) turned = o.rotary_options;
    if (turned && call.positions.defined()) turned->positions = call.positions;
    Projections own = project_self(q_in, turned);
    q = std::move(own.q), k = std::move(own.k), v = std::move(own.v);
  } else {
    if (o.rotary) throw ShapeError("MultiheadAttention: rotary positions are for self-attention");
    if (o.heads.norm) throw ShapeError("MultiheadAttention: heads are normalised in self-attention only");
    const Variable k_in = key.same(query) ? q_in : as_batch(key);
    q = {project(q_in, q_proj_weight, 0, q_width), 0, o.num_heads, o.head_dim};
    if (key.same(value) && in_proj_weight.defined()) {
      const Variable kv = project(k_in, {}, q_width, all);
      k = {kv, 0, o.kv_heads, o.head_dim};
      v = {kv, kv_width, o.kv_heads, o.head_dim};
    } else {
      const Variable v_in = as_batch(value);
      k = {project(k_in, k_proj_weight, q_width, q_width + kv_width), 0, o.kv_heads, o.head_dim};
      v = {project(v_in, v_proj_weight, q_width + kv_width, all), 0, o.kv_heads, o.head_dim};
    }
  }

  AttentionOptions how = attention_options(call.causal);
  how.mask = call.mask;
  if (const auto* padded = std::get_if<PaddedKeys>(&call.tokens)) how.key_lengths = padded->lengths;
  if (const auto* packed = std::get_if<PackedTokens>(&call.tokens)) {
    if (record) throw ShapeError("MultiheadAttention: packed tokens are not recorded; give a padded batch");
    how.q_offsets = packed->q_offsets;
    how.k_offsets = packed->k_offsets;
  }
  const functional::SplitRows* const split = call.split();
  if (split && record)
    throw ShapeError("MultiheadAttention: rows that are split over ranks are not recorded; give all of them");
  if (record) how.selection = record->selection;
  if (record && record->want_vectors) record->vectors = {unpacked(q), unpacked(k), unpacked(v)};
  Tensor* const weights = record && record->want_weights ? &record->weights : nullptr;
  Variable heads = functional::packed_attention(q, k, v, how, weights, split, call.learned_mask, sinks);
  if (control_) {
    const Heads kind = split ? Heads::split : query.same(key) ? Heads::self : Heads::cross;
    heads = controlled(heads, KVCache(unpacked(k), unpacked(v)), how, kind, record);
  }
  Variable out = out_proj(heads);
  if (query.shape().rank() == 2) out = functional::reshape(out, {query.size(0), o.embed_dim});
  return out;
}

Variable MultiheadAttention::step(const Variable& x, KVCache& cache, const Tensor& mask) const {
  if (grad_enabled() && x.requires_grad())
    throw ShapeError("MultiheadAttention: a cache is for decoding; put NoGrad around it");
  if (!in_proj_weight.defined())
    throw ShapeError("MultiheadAttention: step() is self-attention, and kdim or vdim differ from embed_dim");
  const Projections own = project_self(as_batch(x), {});  // the cache turns what it takes
  AttentionOptions how = inference_options(Causal::top_left);
  how.mask = mask;
  Variable heads = attend(own.q, own.k, own.v, cache, how);
  if (control_) {
    how.offset = cache.length() - heads.size(1);
    heads = controlled(heads, cache, how, Heads::self, nullptr);
  }
  Variable out = out_proj(heads);
  if (x.shape().rank() == 2) out = functional::reshape(out, {x.size(0), options_.embed_dim});
  return out;
}

Variable MultiheadAttention::step(const Variable& x, std::span<KVCache* const> caches) const {
  if (grad_enabled() && x.requires_grad())
    throw ShapeError("MultiheadAttention: a cache is for decoding; put NoGrad around it");
  if (x.shape().rank() != 3 || x.size(0) != std::ssize(caches) || x.size(1) != 1)
    throw ShapeError("MultiheadAttention: step() of " + std::to_string(caches.size()) +
                     " texts takes a token of each, (B, 1, E)");
  // One product for all texts: the matrices are read once. Attention is each text's own.
  const Projections own = project_self(x, {});
  const Tensor q = unpacked(own.q), k = unpacked(own.k), v = unpacked(own.v), y = empty_output(own.q);
  const AttentionResult all = packed_result(own.q, y, 0, nullptr);
  const std::unique_ptr<Executor> alone = make_executor(1);
  parallel_for(default_executor(), std::ssize(caches), [&](int64_t b) {
    KVCache& cache = *caches[static_cast<size_t>(b)];
    AttentionOptions how = inference_options(Causal::top_left);
    how.executor = alone.get();
    cache.reserve(cache.length() + 1);
    AttentionResult into;
    into.out = all.out.slice(0, b, b + 1);
    cache.attend(q.slice(0, b, b + 1), k.slice(0, b, b + 1), v.slice(0, b, b + 1), into, std::move(how),
                 options_.rotary ? std::optional(options_.rotary_options) : std::nullopt);
  });
  if (!control_) return out_proj(Variable(y));
  std::vector<Variable> texts;
  for (int64_t b = 0; b < y.size(0); ++b) {
    const KVCache& cache = *caches[static_cast<size_t>(b)];
    AttentionOptions how = inference_options(Causal::top_left);
    how.offset = cache.length() - 1;
    texts.push_back(controlled(Variable(y.slice(0, b, b + 1)), cache, how, Heads::self, nullptr));
  }
  return out_proj(functional::concatenate(texts, 0));
}

// Attention of packed queries, keys and values behind those of a cache; inference only.
Variable MultiheadAttention::attend(const functional::PackedHeads& q, const functional::PackedHeads& k,
                                    const functional::PackedHeads& v, KVCache& cache, AttentionOptions options) const {
  const Tensor keys = unpacked(k), values = unpacked(v), y = empty_output(q);
  const int64_t length = keys.size(2), needed = cache.length() + length;
  constexpr int64_t kFirstCapacity = 16;
  if (!cache.defined())
    cache = KVCache(keys.size(0), k.heads, std::max(needed, kFirstCapacity), k.size, v.size, keys.dtype());
  cache.reserve(needed);
  const AttentionResult into = packed_result(q, y, needed, nullptr);
  cache.attend(unpacked(q), keys, values, into, std::move(options),
               options_.rotary ? std::optional(options_.rotary_options) : std::nullopt);
  return Variable(y);
}

KVCache MultiheadAttention::project_memory(const Variable& memory) const {
  const auto& o = options_;
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  const Variable kv = functional::linear_slice(as_batch(memory), in_proj_weight, {q_width, q_width + 2 * kv_width},
                                               in_proj_bias, {q_width, q_width + 2 * kv_width});
  return KVCache(unpacked({kv, 0, o.kv_heads, o.head_dim}), unpacked({kv, kv_width, o.kv_heads, o.head_dim}));
}

Variable MultiheadAttention::attend_memory(const Variable& query, const KVCache& memory, const PaddedKeys& keys,
                                           HeadRecord* record) const {
  const auto& o = options_;
  const functional::Span of_query{0, o.num_heads * o.head_dim};
  const Variable x = functional::linear_slice(as_batch(query), in_proj_weight, of_query, in_proj_bias, of_query);
  const functional::PackedHeads q{x, 0, o.num_heads, o.head_dim};
  const Tensor y = empty_output(q);
  AttentionOptions how = inference_options(Causal::none);
  how.key_lengths = keys.lengths;
  if (record) how.selection = record->selection;
  heed::attention(unpacked(q), memory.keys(), memory.values(), packed_result(q, y, memory.length(), record), how);
  return out_proj(control_ ? controlled(Variable(y), memory, how, Heads::cross, record) : Variable(y));
}

}  // namespace heed::inline v0
