// y = x W^T + bias, with ReLU if wanted.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/quantised.h"
#include "heed/executor.h"
#include "heed/tensor.h"
#include "kernels/scratch.h"

namespace heed::inline v0 {

/// Calls f with the elements of `weight` as it is kept: a pointer to T, or where that is float to half of its bits, or
/// Quantised.
template <class T, class F>
void with_weights(const Tensor& weight, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (weight.dtype() == DType::f16) return f(weight.data<float16>());
    if (weight.dtype() == DType::bf16) return f(weight.data<bfloat16>());
    if (is_quantised(weight.dtype())) return f(Quantised(weight));
  }
  f(weight.data<T>());
}

/// x (rows, in), w (out, in), bias (out) or null, y (rows, out); max(0, y) where `relu`. W is T, or float16 or bfloat16
/// where T is float: the same bits as of the weight widened.
template <class T, class W>
void linear_forward(const T* x, const W* w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex,
                    bool relu = false);
/// Of rows of whole blocks, where T is float.
template <class T>
void linear_forward(const T* x, const Quantised& w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out,
                    Executor& ex, bool relu = false);

/// A weight (out, in) in the order in which products read it: made once for many calls with few rows.
template <class T>
class PackedWeight {
 public:
  template <class W>
  PackedWeight(const W* w, int64_t in, int64_t out, Executor& ex);
  PackedWeight(const Quantised& w, int64_t in, int64_t out, Executor& ex);  // where T is float
  const T* get() const { return packed_.get(); }
  const int64_t in, out;

 private:
  ScratchArray<T> packed_;
};
/// linear_forward with it: the same bits whatever the number of rows.
template <class T>
void linear_forward(const T* x, const PackedWeight<T>& w, T* y, int64_t rows, Executor& ex);

/// dx (rows, in) is assigned, dw (out, in) and dbias (out) are added to; null outputs are skipped. `relu`: what a
/// forward with relu has written.
template <class T>
void linear_backward(const T* dy, const T* x, const T* w, T* dx, T* dw, T* dbias, int64_t rows, int64_t in, int64_t out,
                     Executor& ex, const T* relu = nullptr);

}  // namespace heed::inline v0
