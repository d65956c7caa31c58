#include "kernels/adamw.h"

#include <cmath>

#include "kernels/chunks.h"

namespace heed::inline v0 {

template <class T>
void adamw_step(T* parameters, const T* gradients, T* m, T* v, int64_t n, int64_t step, const AdamWOptions& options,
                T gradient_scale, Executor& ex) {
  const auto t = static_cast<double>(step);
  // The bias corrections of m and v, folded into the step and into the root.
  const T rate = static_cast<T>(options.learning_rate / (1 - std::pow(options.beta1, t)));
  const T correction = static_cast<T>(1 / (1 - std::pow(options.beta2, t)));
  const T beta1 = static_cast<T>(options.beta1), beta2 = static_cast<T>(options.beta2);
  const T rest1 = static_cast<T>(1 - options.beta1), rest2 = static_cast<T>(1 - options.beta2);
  const T epsilon = static_cast<T>(options.epsilon);
  const T keep = static_cast<T>(1 - options.learning_rate * options.weight_decay);
  for_chunks(n, kChunk / 4, ex, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T g = gradients[i] * gradient_scale;
      const T mean = beta1 * m[i] + rest1 * g, square = beta2 * v[i] + rest2 * g * g;
      m[i] = mean;
      v[i] = square;
      parameters[i] = keep * parameters[i] - rate * mean / (std::sqrt(square * correction) + epsilon);
    }
  });
}

template void adamw_step(float*, const float*, float*, float*, int64_t, int64_t, const AdamWOptions&, float, Executor&);
template void adamw_step(double*, const double*, double*, double*, int64_t, int64_t, const AdamWOptions&, double,
                         Executor&);

}  // namespace heed::inline v0
