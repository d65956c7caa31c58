#include "kernels/unfold.h"

#include <algorithm>

#include "kernels/chunks.h"

namespace heed::inline v0 {

template <class T>
void unfold_forward(const T* x, T* y, const Unfolding& how, Executor& ex) {
  const int64_t rows = how.rows(), width = how.channels * how.size;
  for_rows(how.batch * rows, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t entry = row / rows, first = row % rows * how.step - how.padding;
      for (int64_t k = 0; k < how.size; ++k) {
        const int64_t at = first + k;
        const T* const from = at >= 0 && at < how.length ? x + (entry * how.length + at) * how.channels : nullptr;
        for (int64_t c = 0; c < how.channels; ++c) y[row * width + c * how.size + k] = from ? from[c] : 0;
      }
    }
  });
}

// Each row of x collects from those that read it, so that no two threads write one.
template <class T>
void unfold_backward(const T* dy, T* dx, const Unfolding& how, Executor& ex) {
  const int64_t rows = how.rows(), width = how.channels * how.size;
  for_rows(how.batch * how.length, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t entry = row / how.length, at = row % how.length + how.padding;
      T* const to = dx + row * how.channels;
      std::fill(to, to + how.channels, T{0});
      for (int64_t k = 0; k < how.size && k <= at; ++k) {
        const int64_t reader = (at - k) / how.step;
        if ((at - k) % how.step != 0 || reader >= rows) continue;
        const T* const from = dy + (entry * rows + reader) * width + k;
        for (int64_t c = 0; c < how.channels; ++c) to[c] += from[c * how.size];
      }
    }
  });
}

template void unfold_forward(const float*, float*, const Unfolding&, Executor&);
template void unfold_forward(const double*, double*, const Unfolding&, Executor&);
template void unfold_backward(const float*, float*, const Unfolding&, Executor&);
template void unfold_backward(const double*, double*, const Unfolding&, Executor&);

}  // namespace heed::inline v0
