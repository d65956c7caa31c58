// What a kernel sees of a call: pointers, sizes and resolved options. check.cc has vouched for all of it.
#pragma once

#include <cmath>
#include <cstdint>

#include "heed/attention.h"

namespace heed::inline v0 {

/// Rows of a strided tensor (B, H, L, width); the innermost stride is 1.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  // strides in elements
  T* at(int64_t b, int64_t h, int64_t i) const { return data + b * batch + h * head + i * row; }
};

/// A mask broadcast to (B, Hq, Lq, Lk): strides are 0 along the dimensions it lacks.
struct MaskView {
  bool present = false;
  bool boolean = false;  // else additive, in the dtype of q
  const void* data = nullptr;
  int64_t batch = 0, head = 0, query = 0, key = 0;
  int64_t offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * batch + h * head + i * query + j * key;
  }
};

struct Sizes {
  int64_t B = 0, Hq = 0, Hkv = 0, Lq = 0, Lk = 0, D = 0, Dv = 0;
  int64_t group() const { return Hq / Hkv; }  // query heads that share a key head
};

/// What forward and backward have in common.
template <class T>
struct Problem : Sizes {
  Rows<const T> q;  // (B, Hq, Lq, D)
  Rows<const T> k;  // (B, Hkv, Lk, D)
  Rows<const T> v;  // (B, Hkv, Lk, Dv)
  double scale = 1;
  Causal causal = Causal::none;
  MaskView mask;
  const void* key_lengths = nullptr;  // (B)
  int64_t key_lengths_stride = 0;
  bool key_lengths_wide = false;  // int64, else int32
  double dropout = 0;
  uint64_t seed = 0, stream = 0;

  /// Keys of entry b: those past it are hidden from every query.
  int64_t keys(int64_t b) const {
    if (!key_lengths) return Lk;
    const int64_t at = b * key_lengths_stride;
    return key_lengths_wide ? static_cast<const int64_t*>(key_lengths)[at]
                            : static_cast<const int32_t*>(key_lengths)[at];
  }
  /// Row i may see keys below i + causal_offset(b), before the mask; no limit where there is no causal rule.
  int64_t causal_offset(int64_t b) const { return causal == Causal::top_left ? 1 : keys(b) - Lq + 1; }
  /// One past the last key that row i may see, before the mask.
  int64_t key_end(int64_t b, int64_t i) const {
    const int64_t n = keys(b);
    if (causal == Causal::none) return n;
    const int64_t end = i + causal_offset(b);
    return end < 0 ? 0 : end < n ? end : n;
  }
  /// What the mask adds to a scaled score; -inf hides.
  T bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!mask.present) return 0;
    const int64_t at = mask.offset(b, h, i, j);
    if (mask.boolean) return static_cast<const bool*>(mask.data)[at] ? T{0} : -static_cast<T>(INFINITY);
    return static_cast<const T*>(mask.data)[at];
  }
  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return j < key_end(b, i) && bias(b, h, i, j) != -static_cast<T>(INFINITY);
  }
};

template <class T>
struct Forward : Problem<T> {
  Rows<T> out;           // (B, Hq, Lq, Dv)
  T* lse = nullptr;      // (B, Hq, Lq), contiguous, where wanted
  T* weights = nullptr;  // (B, Hq, Lq, Lk), contiguous, where wanted
};

template <class T>
struct Backward : Problem<T> {
  Rows<const T> grad_out;                // (B, Hq, Lq, Dv)
  Rows<const T> out;                     // (B, Hq, Lq, Dv)
  const T* lse = nullptr;                // (B, Hq, Lq), contiguous
  Rows<T> dq;                            // (B, Hq, Lq, D)
  Rows<T> dk;                            // (B, Hkv, Lk, D)
  Rows<T> dv;                            // (B, Hkv, Lk, Dv)
  T* dmask = nullptr;                    // where wanted: shaped like the mask, contiguous
  int64_t mask_sizes[4] = {1, 1, 1, 1};  // B or 1, Hq or 1, Lq or 1, Lk or 1
  /// Where the gradient of mask element (b, h, i, j) is summed.
  int64_t dmask_offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t* n = mask_sizes;
    return (((n[0] == 1 ? 0 : b) * n[1] + (n[1] == 1 ? 0 : h)) * n[2] + (n[2] == 1 ? 0 : i)) * n[3] +
           (n[3] == 1 ? 0 : j);
  }
};

}  // namespace heed::inline v0
