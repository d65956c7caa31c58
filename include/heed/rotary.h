// Rotary positions (Su et al. 2021, "RoFormer", 3.2.2 and 3.4.2).
#pragma once

#include "heed/executor.h"
#include "heed/kinds.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

struct Rotary {
  RotaryLayout layout = RotaryLayout::half_split;
  int64_t size = 0;     // dimensions of each head that turn, even, at most D; 0: all. The others stay as they are
  double base = 10000;  // pair p turns by position * base^(-2p / size)
  /// Instead of `base`: (size / 2) f64, the angle of each pair a position. For longer contexts than those of training.
  Tensor frequencies{};
  double amplitude = 1;  // a factor on what turned (YaRN's: Peng et al. 2023, 3.4); not with tables
  Tensor positions{};    // (L) or (B, L) int32 or int64; absent: 0, 1, ...
  /// Tables instead of `base`, floating: (positions, size / 2), one row a position id, which then must be one of
  /// theirs; or (B, L, size / 2), already looked up, without `positions`. Both or neither.
  Tensor cos{}, sin{};
  Executor* executor = nullptr;  // default_executor() when null
};

/// x (B, H, L, D), floating, any strides with the innermost 1 -> the same shape and dtype, turned. `inverse` turns
/// back, which is the gradient (both times the amplitude). Angles are taken in double, products in double for float64
/// and in float for the rest. Throws ShapeError.
Tensor rotary(const Tensor& x, const Rotary& options = {}, bool inverse = false);
/// Into memory of the caller: y shaped like x, of any floating dtype, any strides with the innermost 1 by which its
/// elements do not share memory. y may be x, and otherwise shares no memory with anything that is read. Throws
/// ShapeError.
void rotary(const Tensor& x, const Tensor& y, const Rotary& options = {}, bool inverse = false);

}  // namespace heed::inline v0
