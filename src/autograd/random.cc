#include "heed/random.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "core/philox.h"

namespace heed::inline v0 {
namespace {

// A uniform double in [0, 1) with 53 random bits: element i of stream s.
double uniform_at(uint64_t seed, uint64_t stream, uint64_t i) {
  const PhiloxCounter bits = philox4x32({static_cast<uint32_t>(i >> 1), static_cast<uint32_t>(i >> 33),
                                         static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                        philox_key(seed));
  const uint64_t word = i & 1 ? uint64_t{bits[3]} << 32 | bits[2] : uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

thread_local bool no_init = false, shapes_only = false;

template <class F>
Tensor generate(const Dims& shape, DType dtype, F&& draw) {
  Tensor t = Tensor::empty(shape, DType::f64);
  double* out = t.data<double>();
  for (int64_t i = 0, n = t.numel(); i < n; ++i) out[i] = draw(static_cast<uint64_t>(i));
  return t.to(dtype);
}

}  // namespace

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = {seed, 0}; }

NoInit::NoInit() : before_(std::exchange(no_init, true)) {}
NoInit::~NoInit() { no_init = before_; }

ShapesOnly::ShapesOnly() : before_(std::exchange(shapes_only, true)) {}
ShapesOnly::~ShapesOnly() { shapes_only = before_; }
bool ShapesOnly::here() { return shapes_only; }

Tensor constant(const Dims& shape, double value, DType dtype) {
  return shapes_only ? Tensor::full({}, value, dtype).expand(shape) : Tensor::full(shape, value, dtype);
}

Tensor uniform(const Dims& shape, double low, double high, DType dtype) {
  if (no_init || shapes_only) return constant(shape, 0, dtype);
  Generator& g = default_generator();
  const uint64_t stream = g.next();
  return generate(shape, dtype, [&](uint64_t i) { return low + (high - low) * uniform_at(g.seed, stream, i); });
}

Tensor normal(const Dims& shape, double mean, double deviation, DType dtype) {
  if (no_init || shapes_only) return constant(shape, 0, dtype);
  Generator& g = default_generator();
  const uint64_t stream = g.next();
  return generate(shape, dtype, [&](uint64_t i) {
    const double radius = std::sqrt(-2 * std::log1p(-uniform_at(g.seed, stream, 2 * i)));
    return mean + deviation * radius * std::cos(2 * std::numbers::pi * uniform_at(g.seed, stream, 2 * i + 1));
  });
}

}  // namespace heed::inline v0
