#include "heed/finite.h"

#include <algorithm>
#include <cmath>

namespace heed::inline v0 {
namespace {

Dims index_of(int64_t place, const Dims& shape) {
  Dims index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = place % shape[d];
    place /= shape[d];
  }
  return index;
}

template <class T>
std::optional<std::string> search(const Tensor& tensor) {
  const std::span<const T> values = tensor.span<T>();
  const auto found = std::find_if(values.begin(), values.end(), [](T x) { return !std::isfinite(x); });
  if (found == values.end()) return std::nullopt;
  const std::string what = std::isnan(*found) ? "NaN" : *found > 0 ? "Inf" : "-Inf";
  return what + " at " + to_string(index_of(found - values.begin(), tensor.shape()));
}

}  // namespace

std::optional<std::string> first_non_finite(std::span<const std::pair<std::string, Tensor>> tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!is_floating(tensor.dtype()) && !is_quantised(tensor.dtype())) continue;
    const Tensor values = tensor.contiguous();
    const auto found = tensor.dtype() == DType::f64 ? search<double>(values) : search<float>(values.to(DType::f32));
    if (found) return "tensor '" + name + "' holds " + *found;
  }
  return std::nullopt;
}

}  // namespace heed::inline v0
