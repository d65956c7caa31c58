#include "kernels/rotary.h"

#include <cmath>
#include <vector>

#include "kernels/chunks.h"

namespace heed::inline v0 {

template <class T>
void rotary(const T* x, const int32_t* positions, T* y, int64_t rows, int64_t heads, int64_t head_size,
            int64_t rotary_size, double base, RotaryLayout layout, bool inverse, int64_t x_row_stride,
            int64_t x_head_stride, int64_t y_row_stride, int64_t y_head_stride, Executor& ex) {
  const int64_t pairs = rotary_size / 2;
  const bool adjacent = layout == RotaryLayout::interleaved;
  std::vector<double> frequency(static_cast<size_t>(pairs));
  for (int64_t p = 0; p < pairs; ++p)
    frequency[static_cast<size_t>(p)] =
        std::pow(base, -2.0 * static_cast<double>(p) / static_cast<double>(rotary_size));
  for_rows(rows, heads * head_size, ex, [&](int64_t begin, int64_t end) {
    std::vector<T> cosine(static_cast<size_t>(pairs)), sine(static_cast<size_t>(pairs));
    for (int64_t row = begin; row < end; ++row) {
      for (size_t p = 0; p < frequency.size(); ++p) {
        const double angle = positions[row] * frequency[p];  // in double: position 10,000 has angles of 10,000 radians
        cosine[p] = static_cast<T>(std::cos(angle));
        sine[p] = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
      }
      for (int64_t h = 0; h < heads; ++h) {
        const T* in = x + row * x_row_stride + h * x_head_stride;
        T* out = y + row * y_row_stride + h * y_head_stride;
        for (int64_t p = 0; p < pairs; ++p) {
          const int64_t i = adjacent ? 2 * p : p, j = adjacent ? 2 * p + 1 : p + pairs;
          const T a = in[i], b = in[j], c = cosine[static_cast<size_t>(p)], s = sine[static_cast<size_t>(p)];
          out[i] = a * c - b * s;
          out[j] = a * s + b * c;
        }
      }
    }
  });
}

template void rotary(const float*, const int32_t*, float*, int64_t, int64_t, int64_t, int64_t, double, RotaryLayout,
                     bool, int64_t, int64_t, int64_t, int64_t, Executor&);
template void rotary(const double*, const int32_t*, double*, int64_t, int64_t, int64_t, int64_t, double, RotaryLayout,
                     bool, int64_t, int64_t, int64_t, int64_t, Executor&);

}  // namespace heed::inline v0
