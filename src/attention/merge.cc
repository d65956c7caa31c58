// Joining the results of attention over disjoint parts of the keys.
#include <algorithm>
#include <sstream>
#include <utility>

#include "attention/check.h"
#include "attention/log_sum.h"
#include "heed/attention.h"
#include "heed/executor.h"

namespace heed::inline v0 {
namespace {

void check_part(const AttentionResult& part, const char* name) {
  std::ostringstream text;
  text << "merge: ";
  const Tensor &out = part.out, &lse = part.lse, &low = part.lse_low;
  if (!out.defined() || !lse.defined()) {
    text << name << (out.defined() ? ".lse" : ".out") << " is undefined; pass results of attention() with want_lse";
    throw ShapeError(text.str());
  }
  if (!is_floating(out.dtype())) {
    text << name << ".out is " << name_of(out.dtype()) << "; pass f32, f64, f16 or bf16";
    throw ShapeError(text.str());
  }
  const DType compute = compute_dtype(out);
  for (const auto& [t, of] : {std::pair(&lse, ".lse"), std::pair(&low, ".lse_low")}) {
    if (!t->defined()) continue;
    if (t->dtype() != compute) {
      text << name << of << " is " << name_of(t->dtype()) << " beside an output in " << name_of(out.dtype())
           << "; pass " << name_of(compute);
      throw ShapeError(text.str());
    }
    if (out.rank() == 0 || !(t->shape() == Dims(out.shape().begin(), out.shape().end() - 1))) {
      text << name << ".out has shape " << to_string(out.shape()) << " and " << name << of << " "
           << to_string(t->shape())
           << "; pass out (..., L, Dv) and lse (..., L), of ragged batches lse.transpose(0, 1)";
      throw ShapeError(text.str());
    }
  }
  check_lse_is_exact("merge", name, part);
}

void check_parts(const AttentionResult& a, const AttentionResult& b) {
  check_part(a, "a");
  check_part(b, "b");
  if (!(a.out.shape() == b.out.shape()))
    throw ShapeError("merge: a.out has shape " + to_string(a.out.shape()) + " and b.out " + to_string(b.out.shape()) +
                     "; both are of the same queries, make them equal");
  if (a.out.dtype() != b.out.dtype())
    throw ShapeError(std::string("merge: a.out is ") + name_of(a.out.dtype()) + " and b.out " + name_of(b.out.dtype()) +
                     "; convert one with to()");
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

/// (rows), 0 where there is none.
template <class T>
Tensor low_parts(const AttentionResult& part) {
  return part.lse_low.defined() ? part.lse_low.contiguous() : Tensor::zeros(part.lse.shape(), dtype_of<T>());
}

template <class T>
AttentionResult merge_as(const AttentionResult& first, const AttentionResult& second, Executor& executor) {
  const int64_t rows = first.lse.numel(), width = first.out.size(-1);
  const Tensor a = first.out.to(dtype_of<T>()).contiguous(), b = second.out.to(dtype_of<T>()).contiguous();
  const Tensor la = first.lse.contiguous(), lb = second.lse.contiguous();
  const Tensor low_a = low_parts<T>(first), low_b = low_parts<T>(second);
  const Tensor merged = Tensor::empty(first.out.shape(), dtype_of<T>());
  AttentionResult result;
  result.lse = Tensor::empty(first.lse.shape(), dtype_of<T>());
  result.lse_low = Tensor::empty(first.lse.shape(), dtype_of<T>());
  constexpr int64_t kElements = 65536;  // a tile
  const int64_t step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
  parallel_for(executor, (rows + step - 1) / step, [&](int64_t tile) {
    for (int64_t r = tile * step; r < std::min(rows, (tile + 1) * step); ++r) {
      const LogSum x(la.data<T>()[r], low_a.data<T>()[r]), y(lb.data<T>()[r], low_b.data<T>()[r]), sum = x + y;
      T* const to = merged.data<T>() + r * width;
      take(static_cast<T>(x.share_of(sum)), x.is_nothing(), a.data<T>() + r * width, width, false, to);
      take(static_cast<T>(y.share_of(sum)), y.is_nothing(), b.data<T>() + r * width, width, true, to);
      result.lse.data<T>()[r] = sum.rounded<T>();
      result.lse_low.data<T>()[r] = sum.rest<T>();
    }
  });
  result.out = merged.to(first.out.dtype());
  return result;
}

}  // namespace

AttentionResult merge(const AttentionResult& a, const AttentionResult& b, Executor* executor) {
  check_parts(a, b);
  Executor& ex = executor ? *executor : default_executor();
  return a.out.dtype() == DType::f64 ? merge_as<double>(a, b, ex) : merge_as<float>(a, b, ex);
}

}  // namespace heed::inline v0
