#include <cmath>

#include "heed/view.h"

namespace heed::inline v0 {

HeadStatistics statistics(const Tensor& weights) {
  if (!weights.defined() || weights.rank() != 2)
    throw ShapeError("statistics: weights " + (weights.defined() ? to_string(weights.shape()) : "(undefined)") +
                     " are not one head; pass (Lq, Lk), for instance weights.select(0, b).select(0, h)");
  if (!is_floating(weights.dtype()))
    throw ShapeError(std::string("statistics: weights are ") + name_of(weights.dtype()) + "; pass floating ones");
  const int64_t queries = weights.size(0), keys = weights.size(1);
  const Tensor contiguous = weights.to(DType::f64).contiguous();
  const double* values = contiguous.data<double>();  // (Lq, Lk)

  // The mean over the queries i for which key i + offset exists.
  const auto mean_at_offset = [&](int64_t offset) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t key = i + offset;
      if (key < 0 || key >= keys) continue;
      sum += values[i * keys + key];
      ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : 0;
  };

  HeadStatistics result;
  result.diagonal_mass = mean_at_offset(0);
  result.previous_mass = mean_at_offset(-1);
  result.next_mass = mean_at_offset(1);
  if (queries == 0 || keys == 0) return result;
  double entropy = 0, distance = 0, first = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const double* row = values + i * keys;
    for (int64_t j = 0; j < keys; ++j) {
      if (row[j] != 0) entropy -= row[j] * std::log(row[j]);  // 0 ln 0 = 0
      distance += row[j] * static_cast<double>(std::abs(i - j));
    }
    first += row[0];
  }
  result.entropy = entropy / static_cast<double>(queries);
  result.mean_distance = distance / static_cast<double>(queries);
  result.first_mass = first / static_cast<double>(queries);
  return result;
}

}  // namespace heed::inline v0
