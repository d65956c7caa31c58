// Joining the results of attention over disjoint parts of the keys.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed::inline v0 {
namespace {

void check_part(const Tensor& out, const Tensor& lse, const char* number) {
  std::ostringstream text;
  text << "merge: ";
  if (!out.defined() || !lse.defined()) {
    text << (out.defined() ? "lse" : "out") << number << " is undefined; pass results of attention() with want_lse";
    throw ShapeError(text.str());
  }
  if (!is_floating(out.dtype())) {
    text << "out" << number << " is " << name_of(out.dtype()) << "; pass f32, f64, f16 or bf16";
    throw ShapeError(text.str());
  }
  const DType compute = out.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (lse.dtype() != compute) {
    text << "lse" << number << " is " << name_of(lse.dtype()) << " beside an output in " << name_of(out.dtype())
         << "; pass " << name_of(compute);
    throw ShapeError(text.str());
  }
  if (out.rank() == 0 || !(lse.shape() == Dims(out.shape().begin(), out.shape().end() - 1))) {
    text << "out" << number << " has shape " << to_string(out.shape()) << " and lse" << number << " "
         << to_string(lse.shape()) << "; pass out (..., L, Dv) and lse (..., L), of ragged batches lse.transpose(0, 1)";
    throw ShapeError(text.str());
  }
}

void check_parts(const Tensor& out, const Tensor& lse, const Tensor& out2, const Tensor& lse2) {
  check_part(out, lse, "");
  check_part(out2, lse2, "2");
  if (!(out.shape() == out2.shape()))
    throw ShapeError("merge: out has shape " + to_string(out.shape()) + " and out2 " + to_string(out2.shape()) +
                     "; both are of the same queries, make them equal");
  if (out.dtype() != out2.dtype())
    throw ShapeError(std::string("merge: out is ") + name_of(out.dtype()) + " and out2 " + name_of(out2.dtype()) +
                     "; convert one with to()");
}

/// A row's parts of the whole sum, and its log. A part that saw nothing has none.
template <class T>
struct Shares {
  T first, second, lse;
};

template <class T>
Shares<T> shares(T lse, T lse2) {
  const T nothing = -static_cast<T>(INFINITY);
  if (lse == nothing && lse2 == nothing) return {0, 0, nothing};
  if (lse2 == nothing) return {1, 0, lse};
  if (lse == nothing) return {0, 1, lse2};
  const bool larger = lse >= lse2;
  const T ratio = std::exp(larger ? lse2 - lse : lse - lse2);  // of the smaller sum to the larger, at most 1
  const T major = 1 / (1 + ratio), minor = ratio / (1 + ratio);
  return {larger ? major : minor, larger ? minor : major, (larger ? lse : lse2) + std::log1p(ratio)};
}

/// to = share * x; 0 where the part saw nothing, and not 0 * NaN. Added to what is there where `add`.
template <class T>
void take(T share, bool nothing, const T* x, int64_t width, bool add, T* to) {
  if (nothing && !add) std::fill_n(to, width, T{0});
  if (nothing) return;
  if (add)
    for (int64_t d = 0; d < width; ++d) to[d] += share * x[d];
  else
    for (int64_t d = 0; d < width; ++d) to[d] = share * x[d];
}

template <class T>
AttentionResult merge_as(const Tensor& out, const Tensor& lse, const Tensor& out2, const Tensor& lse2,
                         Executor& executor) {
  const int64_t rows = lse.numel(), width = out.size(-1);
  const Tensor a = out.to(dtype_of<T>()).contiguous(), b = out2.to(dtype_of<T>()).contiguous();
  const Tensor la = lse.contiguous(), lb = lse2.contiguous();
  const Tensor merged = Tensor::empty(out.shape(), dtype_of<T>());
  AttentionResult result;
  result.lse = Tensor::empty(lse.shape(), dtype_of<T>());
  const T nothing = -static_cast<T>(INFINITY);
  constexpr int64_t kElements = 65536;  // a tile
  const int64_t step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
  parallel_for(executor, (rows + step - 1) / step, [&](int64_t tile) {
    for (int64_t r = tile * step; r < std::min(rows, (tile + 1) * step); ++r) {
      const T first = la.data<T>()[r], second = lb.data<T>()[r];
      const Shares<T> share = shares(first, second);
      T* const to = merged.data<T>() + r * width;
      take(share.first, first == nothing, a.data<T>() + r * width, width, false, to);
      take(share.second, second == nothing, b.data<T>() + r * width, width, true, to);
      result.lse.data<T>()[r] = share.lse;
    }
  });
  result.out = merged.to(out.dtype());
  return result;
}

}  // namespace

AttentionResult merge(const Tensor& out, const Tensor& lse, const Tensor& out2, const Tensor& lse2,
                      Executor* executor) {
  check_parts(out, lse, out2, lse2);
  Executor& ex = executor ? *executor : default_executor();
  return out.dtype() == DType::f64 ? merge_as<double>(out, lse, out2, lse2, ex)
                                   : merge_as<float>(out, lse, out2, lse2, ex);
}

}  // namespace heed::inline v0
