#include "kernels/linear.h"

#include "kernels/chunks.h"
#include "kernels/gemm.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kColumns = 64;  // of a column sum: rows go through in order, so its bits are fixed

}  // namespace

template <class T>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t in, int64_t out, Executor& ex) {
  // The bias goes in first and the product is added, which saves a pass.
  if (bias)
    for_rows(rows, out, ex, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) std::copy(bias, bias + out, y + row * out);
    });
  gemm<T>(Trans::no, Trans::yes, rows, out, in, T{1}, x, in, w, in, bias ? T{1} : T{0}, y, out, ex);
}

template <class T>
void linear_backward(const T* dy, const T* x, const T* w, T* dx, T* dw, T* dbias, int64_t rows, int64_t in, int64_t out,
                     Executor& ex) {
  if (dx) gemm<T>(Trans::no, Trans::no, rows, in, out, T{1}, dy, out, w, in, T{0}, dx, in, ex);
  if (dw) gemm<T>(Trans::yes, Trans::no, out, in, rows, T{1}, dy, out, x, in, T{1}, dw, in, ex);
  if (dbias)
    for_chunks(out, kColumns, ex, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = begin; j < end; ++j) dbias[j] += dy[row * out + j];
    });
}

template void linear_forward(const float*, const float*, const float*, float*, int64_t, int64_t, int64_t, Executor&);
template void linear_forward(const double*, const double*, const double*, double*, int64_t, int64_t, int64_t,
                             Executor&);
template void linear_backward(const float*, const float*, const float*, float*, float*, float*, int64_t, int64_t,
                              int64_t, Executor&);
template void linear_backward(const double*, const double*, const double*, double*, double*, double*, int64_t, int64_t,
                              int64_t, Executor&);

}  // namespace heed::inline v0
