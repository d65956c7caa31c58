#include <cmath>
#include <cstring>
#include <numeric>

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

Tensor positions(int64_t begin, int64_t length) {
  Tensor p = Tensor::empty({length}, DType::i32);
  std::iota(p.data<int32_t>(), p.data<int32_t>() + length, static_cast<int32_t>(begin));
  return p;
}

// Copies heads packed in x (B, L, width) behind the filled part of a cache (B, H, capacity, D).
void append(const Tensor& x, int64_t offset, Tensor& cache, int64_t filled, int64_t heads, int64_t size) {
  const int64_t batch = x.size(0), length = x.size(1), needed = filled + length;
  if (!cache.defined() || cache.size(2) < needed) {
    const int64_t capacity = std::max<int64_t>(needed, cache.defined() ? 2 * cache.size(2) : 16);
    const Tensor grown = Tensor::empty({batch, heads, capacity, size}, x.dtype());
    if (filled) grown.slice(2, 0, filled).copy_from(cache.slice(2, 0, filled));
    cache = grown;
  }
  if (cache.size(0) != batch)
    throw ShapeError("MultiheadAttention: the cache holds " + std::to_string(cache.size(0)) +
                     " entries, the input has " + std::to_string(batch));
  cache.slice(2, filled, needed)
      .copy_from(x.as_strided({batch, heads, length, size}, {x.stride(0), size, x.stride(1), 1}, offset));
}

}  // namespace

void KVCache::reorder(const std::vector<int64_t>& source) {
  if (!k.defined()) return;
  for (Tensor* t : {&k, &v}) {
    Dims shape = t->shape();
    shape[0] = static_cast<int64_t>(source.size());
    const Tensor moved = Tensor::empty(shape, t->dtype());
    for (size_t i = 0; i < source.size(); ++i)
      moved.select(0, static_cast<int64_t>(i))
          .slice(1, 0, length)
          .copy_from(t->select(0, source[i]).slice(1, 0, length));
    *t = moved;
  }
}

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
  if (o.bias) in_proj_bias = register_parameter("in_proj_bias", Tensor::zeros({q_width + 2 * kv_width}));
  register_module("out_proj", out_proj);
  if (out_proj.bias.defined()) out_proj.bias.value().fill(0);
}

Variable MultiheadAttention::operator()(const Variable& query, const Variable& key, const Variable& value,
                                        const Call& call) const {
  const auto& o = options_;
  const Variable q_in = as_batch(query);
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  const int64_t all = q_width + 2 * kv_width;
  const auto project = [&](const Variable& x, const Variable& own, int64_t begin, int64_t end) {
    if (in_proj_weight.defined()) return functional::linear(x, in_proj_weight, in_proj_bias, begin, end);
    return functional::linear(x, own, in_proj_bias, 0, end - begin, begin);
  };

  functional::PackedHeads q, k, v;
  if (query.same(key) && query.same(value) && in_proj_weight.defined()) {
    Variable qkv = functional::linear(q_in, in_proj_weight, in_proj_bias);
    if (o.rotary) {
      const int64_t begin = call.cache ? call.cache->length : 0;
      qkv = functional::rotary(qkv, positions(begin, q_in.size(1)), o.num_heads + o.kv_heads, o.head_dim,
                               o.rotary_options);
    }
    q = {qkv, 0, o.num_heads, o.head_dim};
    k = {qkv, q_width, o.kv_heads, o.head_dim};
    v = {qkv, q_width + kv_width, o.kv_heads, o.head_dim};
  } else {
    if (o.rotary) throw ShapeError("MultiheadAttention: rotary positions are for self-attention");
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

  AttentionOptions attention_options{
      .causal = call.causal, .scale = o.scale, .mask = call.mask, .key_lengths = call.key_lengths};
  if (training()) attention_options.dropout = o.dropout;
  Variable heads;
  if (call.cache) {
    if (grad_enabled() && query.requires_grad())
      throw ShapeError("MultiheadAttention: a cache is for decoding; put NoGrad around it");
    KVCache& cache = *call.cache;
    append(k.x.value(), k.offset, cache.k, cache.length, o.kv_heads, o.head_dim);
    append(v.x.value(), v.offset, cache.v, cache.length, o.kv_heads, o.head_dim);
    cache.length += q_in.size(1);
    if (attention_options.causal != Causal::none) attention_options.causal = Causal::bottom_right;
    heads = attend(q, cache, attention_options, call.weights);
  } else {
    heads = functional::packed_attention(q, k, v, std::move(attention_options), call.weights);
  }
  Variable out = out_proj(heads);
  if (query.shape().rank() == 2) out = functional::reshape(out, {query.size(0), o.embed_dim});
  return out;
}

// Attention of packed queries over a cache; inference only.
Variable MultiheadAttention::attend(const functional::PackedHeads& q, const KVCache& cache, AttentionOptions options,
                                    Tensor* weights) const {
  const Tensor& x = q.x.value();
  const int64_t batch = x.size(0), length = x.size(1), heads = q.heads, size = q.size;
  const Tensor y = Tensor::empty({batch, length, heads * size}, x.dtype());
  AttentionResult result;
  result.out = y.as_strided({batch, heads, length, size}, {y.stride(0), size, y.stride(1), 1});
  if (weights) result.weights = *weights = Tensor::empty({batch, heads, length, cache.length}, x.dtype());
  heed::attention(x.as_strided({batch, heads, length, size}, {x.stride(0), size, x.stride(1), 1}, q.offset),
                  cache.k.slice(2, 0, cache.length), cache.v.slice(2, 0, cache.length), result, options);
  return Variable(y);
}

KVCache MultiheadAttention::project_memory(const Variable& memory) const {
  const auto& o = options_;
  const int64_t q_width = o.num_heads * o.head_dim, kv_width = o.kv_heads * o.head_dim;
  const Variable kv =
      functional::linear(as_batch(memory), in_proj_weight, in_proj_bias, q_width, q_width + 2 * kv_width);
  const Tensor& x = kv.value();
  const auto part = [&](int64_t offset) {
    return x.as_strided({x.size(0), o.kv_heads, x.size(1), o.head_dim}, {x.stride(0), o.head_dim, x.stride(1), 1},
                        offset);
  };
  return {part(0), part(kv_width), x.size(1)};
}

Variable MultiheadAttention::attend_memory(const Variable& query, const KVCache& memory, const Call& call) const {
  const auto& o = options_;
  const Variable q = functional::linear(as_batch(query), in_proj_weight, in_proj_bias, 0, o.num_heads * o.head_dim);
  AttentionOptions attention_options{.scale = o.scale, .mask = call.mask, .key_lengths = call.key_lengths};
  return out_proj(attend({q, 0, o.num_heads, o.head_dim}, memory, std::move(attention_options), call.weights));
}

}  // namespace heed::inline v0
