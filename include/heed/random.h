// Random numbers. Each draw is a function of (seed, stream, index), so nothing depends on threads or order of tiles.
#pragma once

#include <cstdint>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// Hands out streams in the order of the calls; (seed, next stream) is its whole state.
struct Generator {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t next() { return stream++; }
};

/// The generator of this thread, used by layers for initial values and dropout. Seed 0 at the start.
Generator& default_generator();
/// Resets default_generator() to this seed.
void manual_seed(uint64_t seed);

/// While in scope, uniform() and normal() of this thread return zeros without drawing: for a model whose weights are
/// loaded next, which saves millions of draws.
class NoInit {
 public:
  NoInit();
  ~NoInit();
  NoInit(const NoInit&) = delete;
  NoInit& operator=(const NoInit&) = delete;

 private:
  bool before_;
};

/// While in scope, uniform(), normal() and constant() of this thread draw nothing and return views of a single number:
/// a model made then has names and shapes but takes no memory. For counting, not for computing.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;
  static bool here();

 private:
  bool before_;
};

// Initial values of parameters.
Tensor constant(const Dims& shape, double value, DType dtype = DType::f32);
Tensor uniform(const Dims& shape, double low, double high, DType dtype = DType::f32);       // [low, high)
Tensor normal(const Dims& shape, double mean, double deviation, DType dtype = DType::f32);  // Box-Muller

}  // namespace heed::inline v0
