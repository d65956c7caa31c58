// KVCache: keys and values of earlier positions; append and attend in one call.
#pragma once

#include <optional>
#include <vector>

#include "heed/attention.h"
#include "heed/rotary.h"

namespace heed::inline v0 {

/// A cache of keys and values. Only reserve() changes the capacity. All entries have the same number of positions. A
/// call that throws leaves the cache unchanged. Copies share the memory.
class KVCache {
 public:
  KVCache() = default;  // undefined
  /// k (B, Hkv, capacity, D) and v (B, Hkv, capacity, Dv) in `dtype`: f32, f64, f16 or bf16. Throws ShapeError.
  KVCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t head_size, int64_t value_size,
          DType dtype = DType::f32);
  /// Shares existing keys (B, Hkv, L, D) and values (B, Hkv, L, Dv). The cache is full until reserve() moves it. Any
  /// strides can be read. After truncate(), appending writes into this memory and throws ShapeError where its elements
  /// share memory. Throws ShapeError.
  KVCache(const Tensor& keys, const Tensor& values);
  bool defined() const { return k_.defined(); }
  int64_t length() const { return length_; }
  int64_t capacity() const { return defined() ? k_.size(2) : 0; }
  DType dtype() const { return k_.dtype(); }
  Tensor keys() const;    // (B, Hkv, length, D), a view
  Tensor values() const;  // (B, Hkv, length, Dv), a view
  void clear() { length_ = 0; }
  /// Drops positions from `length` on. Throws ShapeError.
  void truncate(int64_t length);
  /// Makes room for `positions` in total. If memory must move, the capacity at least doubles.
  void reserve(int64_t positions);
  /// Keeps entry source[i] as entry i (beam search; entries may repeat or vanish). Throws ShapeError.
  void reorder(const std::vector<int64_t>& source);

  /// Appends k (B, Hkv, L, D) and v (B, Hkv, L, Dv), of any floating dtype, converted to the cache's; k is rotated by
  /// `rotary`. k and v share no memory with the cache, unless they are already in their places. Throws ShapeError, also
  /// when full. `executor`: default_executor() when null.
  void append(const Tensor& k, const Tensor& v, const std::optional<Rotary>& rotary = {}, Executor* executor = nullptr);
  /// Appends, then attends: q (B, Hq, L, D) directly follows the cached positions. options.causal none or top_left
  /// (bottom_right is the same here); options.offset must be 0; the old length replaces it. Masks cover all keys. With
  /// `rotary`, q and k are rotated by their positions first; position ids default to length() + 0, 1, ... Computes in
  /// float64 for a float64 cache, else in float32; `out` has the dtype of q. Throws ShapeError.
  AttentionResult attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {},
                         const std::optional<Rotary>& rotary = {});
  /// Writes into the caller's memory, as attention() does.
  void attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
              AttentionOptions options = {}, const std::optional<Rotary>& rotary = {});

 private:
  void check(const Tensor& k, const Tensor& v) const;
  Rotary at_end(const Rotary& rotary, int64_t count) const;
  void write(const Tensor& k, const Tensor& v, const std::optional<Rotary>& rotary, Executor& executor) const;
  template <class Run>
  void attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions& options,
              const std::optional<Rotary>& rotary, Run&& run);
  Tensor k_, v_;  // (B, Hkv, capacity, D), (B, Hkv, capacity, Dv)
  int64_t length_ = 0;
};

}  // namespace heed::inline v0
