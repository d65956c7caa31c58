// Numbers of few bits that share factors in blocks, and what they stand for.
#pragma once

#include <bit>
#include <cstdint>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// A place in quantised memory: number `first`, a multiple of 32, of those that blocks from `data` on hold.
struct Quantised {
  explicit Quantised(const Tensor& t)
      : dtype(t.dtype()),
        log2_block(std::countr_zero(static_cast<uint64_t>(block_of(dtype)))),
        bytes(bytes_of(dtype, block_of(dtype))),
        data(static_cast<const uint8_t*>(t.raw())) {}

  DType dtype;
  int log2_block;
  int64_t bytes;  // of a block
  const uint8_t* data;
  int64_t first = 0;

  const uint8_t* block() const { return data + (first >> log2_block) * bytes; }
};

inline Quantised element(Quantised from, int64_t i) {
  from.first += i;
  return from;
}

/// to[0, count) = the numbers from there on, in float32; count is a multiple of 32. The same bits on every machine:
/// src/simd/quantised.cc.
void dequantise(const Quantised& from, int64_t count, float* to);

}  // namespace heed::inline v0
