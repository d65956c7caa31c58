// Counts what a program that links this asks of the system: operator new, and the blocks that the pool behind Tensor
// takes with aligned_alloc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::test {

/// Bytes asked of operator new so far, given back or not, and how many calls asked for them.
size_t allocated_bytes();
int64_t allocations();

/// Calls of aligned_alloc so far.
int64_t aligned_blocks();

}  // namespace heed::test
