#include "heed/kv_cache.h"

#include <algorithm>
#include <sstream>

#include "attention/written.h"
#include "heed/executor.h"

namespace heed::inline v0 {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  text << "KVCache: ";
  (text << ... << parts);
  throw ShapeError(text.str());
}

void check_floating(const char* name, const Tensor& t) {
  if (!t.defined() || t.rank() != 4)
    refuse(name, t.defined() ? " has shape " + to_string(t.shape()) : std::string(" is undefined"),
           "; pass (B, heads, L, size)");
  if (!is_floating(t.dtype())) refuse(name, " is ", name_of(t.dtype()), "; pass f32, f64, f16 or bf16");
}

/// to = from, both (B, H, L, size), about as much at a time as a thread copies while another wakes up.
void copy(const Tensor& from, const Tensor& to, Executor& executor) {
  constexpr int64_t kElements = 65536;
  const int64_t entries = to.size(0), heads = to.size(1), length = to.size(2), size = to.size(3);
  const int64_t entry = heads * length * size;  // elements of one
  if (entries * entry <= kElements) return to.copy_from(from);
  if (entry <= kElements) {
    const int64_t step = kElements / entry;
    return parallel_for(executor, (entries + step - 1) / step, [&](int64_t n) {
      const int64_t begin = n * step, end = std::min(entries, begin + step);
      to.slice(0, begin, end).copy_from(from.slice(0, begin, end));
    });
  }
  const int64_t step = std::max<int64_t>(1, kElements / size), pieces = (length + step - 1) / step;
  parallel_for(executor, entries * heads * pieces, [&](int64_t n) {
    const int64_t begin = n % pieces * step, end = std::min(length, begin + step);
    const auto rows = [&](const Tensor& t) {
      return t.select(0, n / pieces / heads).select(0, n / pieces % heads).slice(0, begin, end);
    };
    rows(to).copy_from(rows(from));
  });
}

/// Throws ShapeError unless k and v can be written to `keys` and `values` from `length` on while k, v and q (may be
/// undefined) are read. k and v may already be in their places.
void check_places(const Tensor& keys, const Tensor& values, int64_t length, const Tensor& k, const Tensor& v,
                  const Tensor& q) {
  constexpr auto operation = "KVCache", own_keys = "the memory of keys", own_values = "the memory of values";
  const int64_t count = k.size(2);
  if (count == 0) return;
  check_own_places(operation, own_keys, keys);
  check_own_places(operation, own_values, values);
  check_apart(operation, {{own_keys, &keys}, {own_values, &values}}, {});
  const Tensor to_k = keys.slice(2, length, length + count), to_v = values.slice(2, length, length + count), none;
  check_apart(operation, {{own_keys, &to_k}, {own_values, &to_v}},
              {{"k", is_one_view(k, to_k) ? &none : &k}, {"v", is_one_view(v, to_v) ? &none : &v}, {"q", &q}});
}

/// float64 for float64, float32 for the rest.
DType compute_dtype(DType kept) { return kept == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

KVCache::KVCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t head_size, int64_t value_size,
                 DType dtype) {
  if (batch < 0 || kv_heads < 0 || capacity < 0 || head_size < 1 || value_size < 0)
    refuse("sizes ", to_string(Dims{batch, kv_heads, capacity, head_size, value_size}),
           " of batch, heads, capacity, keys and values; none may be negative, and keys have at least 1 element");
  if (!is_floating(dtype)) refuse("dtype ", name_of(dtype), "; pass f32, f64, f16 or bf16");
  v_ = Tensor::empty({batch, kv_heads, capacity, value_size}, dtype);
  k_ = Tensor::empty({batch, kv_heads, capacity, head_size}, dtype);
}

KVCache::KVCache(const Tensor& keys, const Tensor& values) {
  check_floating("keys", keys);
  check_floating("values", values);
  for (int d = 0; d < 3; ++d)
    if (keys.size(d) != values.size(d) || keys.dtype() != values.dtype())
      refuse("keys are ", name_of(keys.dtype()), " ", to_string(keys.shape()), " and values ", name_of(values.dtype()),
             " ", to_string(values.shape()), "; they may differ in the last dimension alone");
  k_ = keys, v_ = values, length_ = keys.size(2);
}

Tensor KVCache::keys() const { return defined() ? k_.slice(2, 0, length_) : Tensor(); }
Tensor KVCache::values() const { return defined() ? v_.slice(2, 0, length_) : Tensor(); }

void KVCache::truncate(int64_t length) {
  if (length < 0 || length > length_) refuse("length ", length, "; pass 0 to ", length_, ", what is there");
  length_ = length;
}

void KVCache::reserve(int64_t positions) {
  if (positions <= capacity()) return;
  if (!defined()) refuse("the cache is undefined; make it with its sizes");
  const auto grown = [&](const Tensor& old) {
    Dims shape = old.shape();
    shape[2] = std::max(positions, 2 * old.size(2));
    const Tensor memory = Tensor::empty(shape, old.dtype());
    memory.slice(2, 0, length_).copy_from(old.slice(2, 0, length_));
    return memory;
  };
  const Tensor k = grown(k_), v = grown(v_);
  k_ = k, v_ = v;
}

void KVCache::reorder(const std::vector<int64_t>& source) {
  if (!defined()) return;
  const auto entries = static_cast<int64_t>(source.size());
  for (const int64_t entry : source)
    if (entry < 0 || entry >= k_.size(0)) refuse("entry ", entry, " of ", k_.size(0), "; count from 0");
  // In place where the memory is nobody else's and no entry is needed after another has taken its place.
  bool in_place = entries <= k_.size(0) && k_.unique() && v_.unique() && has_own_places(k_) && has_own_places(v_);
  for (int64_t i = 0; in_place && i < entries; ++i) {
    const auto from = static_cast<size_t>(source[static_cast<size_t>(i)]);
    in_place = from >= static_cast<size_t>(i) || source[from] == static_cast<int64_t>(from);
  }
  const auto moved = [&](const Tensor& old) {
    Dims shape = old.shape();
    shape[0] = entries;
    const Tensor memory = in_place ? old.slice(0, 0, entries) : Tensor::empty(shape, old.dtype());
    for (int64_t i = 0; i < entries; ++i) {
      const int64_t from = source[static_cast<size_t>(i)];
      if (in_place && from == i) continue;
      memory.select(0, i).slice(1, 0, length_).copy_from(old.select(0, from).slice(1, 0, length_));
    }
    return memory;
  };
  const Tensor k = moved(k_), v = moved(v_);
  k_ = k, v_ = v;
}

void KVCache::check(const Tensor& k, const Tensor& v) const {
  if (!defined()) refuse("the cache is undefined; make it with its sizes");
  check_floating("k", k);
  check_floating("v", v);
  const int64_t count = k.size(2);
  const Dims keys{k_.size(0), k_.size(1), count, k_.size(3)}, values{v_.size(0), v_.size(1), count, v_.size(3)};
  if (!(k.shape() == keys) || !(v.shape() == values))
    refuse("k is ", to_string(k.shape()), " and v ", to_string(v.shape()), "; this cache takes ", to_string(keys),
           " and ", to_string(values));
  if (length_ + count > capacity())
    refuse(length_, " positions and ", count, " more do not fit a capacity of ", capacity(),
           "; call reserve() or truncate() first");
}

// Position ids of `count` tokens behind what is there, where the caller gives none.
Rotary KVCache::at_end(const Rotary& rotary, int64_t count) const {
  Rotary placed = rotary;
  if (placed.positions.defined() || placed.cos.rank() == 3) return placed;
  placed.positions = Tensor::empty({count}, DType::i64);
  for (int64_t l = 0; l < count; ++l) placed.positions.data<int64_t>()[l] = length_ + l;
  return placed;
}

// Behind the last position, where nobody looks before length_ moves.
void KVCache::write(const Tensor& k, const Tensor& v, const std::optional<Rotary>& rotary, Executor& executor) const {
  const int64_t end = length_ + k.size(2);
  const Tensor keys = k_.slice(2, length_, end);
  if (rotary) {
    heed::rotary(k, keys, *rotary);
  } else {
    copy(k, keys, executor);
  }
  copy(v, v_.slice(2, length_, end), executor);
}

void KVCache::append(const Tensor& k, const Tensor& v, const std::optional<Rotary>& rotary, Executor* executor) {
  check(k, v);
  check_places(k_, v_, length_, k, v, {});
  std::optional<Rotary> placed = rotary;
  if (placed) placed = at_end(*placed, k.size(2));
  if (placed && !placed->executor) placed->executor = executor;
  write(k, v, placed, executor ? *executor : default_executor());
  length_ += k.size(2);
}

// Calls run(q, keys, values, options) with q as the kernels take it.
template <class Run>
void KVCache::attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions& options,
                     const std::optional<Rotary>& rotary, Run&& run) {
  check(k, v);
  check_floating("q", q);
  const int64_t count = k.size(2);
  if (q.size(2) != count) refuse("q has ", q.size(2), " positions and k ", count, "; each new query is a new key");
  if (options.offset != 0) refuse("offset is ", options.offset, "; leave it 0, it becomes the length");
  if (options.q_offsets.defined() || options.k_offsets.defined())
    refuse("a cache is no ragged batch; leave q_offsets and k_offsets out");
  check_places(k_, v_, length_, k, v, q);
  options.offset = length_;
  if (options.causal == Causal::bottom_right) options.causal = Causal::top_left;

  Executor& executor = options.executor ? *options.executor : default_executor();
  const DType compute = compute_dtype(dtype());
  Tensor queries = q;
  if (rotary) {
    Rotary placed = at_end(*rotary, count);
    if (!placed.executor) placed.executor = options.executor;
    queries = Tensor::empty(q.shape(), compute);
    heed::rotary(q, queries, placed);
    write(k, v, placed, executor);
  } else {
    if (q.dtype() != dtype()) queries = q.to(compute);
    write(k, v, rotary, executor);
  }
  run(queries, k_.slice(2, 0, length_ + count), v_.slice(2, 0, length_ + count));
  length_ += count;
}

AttentionResult KVCache::attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                                const std::optional<Rotary>& rotary) {
  AttentionResult result;
  attend(q, k, v, options, rotary, [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
    result = attention(queries, keys, values, options);
    result.out = result.out.to(q.dtype());
  });
  return result;
}

void KVCache::attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
                     AttentionOptions options, const std::optional<Rotary>& rotary) {
  attend(q, k, v, options, rotary, [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
    AttentionResult target = into;
    if (into.out.defined() && into.out.dtype() == q.dtype() && queries.dtype() != q.dtype()) {
      target.out = Tensor::empty(into.out.shape(), queries.dtype());
      check_own_places("KVCache", "into.out", into.out);
      check_apart("KVCache",
                  {{"into.out", &into.out},
                   {"into.lse", &into.lse},
                   {"into.lse_low", &into.lse_low},
                   {"into.weights", &into.weights},
                   {"into.scores", &into.scores}},
                  {{"the keys", &keys}, {"the values", &values}});
    }
    attention(queries, keys, values, target, options);
    if (target.out.raw() != into.out.raw()) into.out.copy_from(target.out);
  });
}

}  // namespace heed::inline v0
