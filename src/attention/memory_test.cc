// Extra memory grows with L, not L * L: everything that is allocated during a call at L = 8192 is counted.
#include "core/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "attention/testing.h"

namespace {
std::atomic<size_t> g_allocated{0};  // bytes asked of operator new, never given back
}  // namespace

void* operator new(size_t bytes) {
  g_allocated += bytes;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace heed {
namespace {

/// Most bytes that f holds at once, in tensors and scratch from the pool and in all else together.
template <class F>
size_t extra_bytes(F&& f) {
  reset_peak_memory();
  const size_t pool = memory_in_use(), rest = g_allocated;
  f();
  return peak_memory() - pool + (g_allocated - rest);
}

TEST(AttentionMemory, GrowsWithTheLengthOnly) {
  constexpr int64_t L = 8192, D = 8;
  const Tensor q = test::random_tensor({1, 1, L, D}, 1, DType::f32);
  const auto executor = make_executor(2);
  const AttentionOptions o{.causal = Causal::top_left, .executor = executor.get()};
  const AttentionResult into{Tensor::empty({1, 1, L, D}), Tensor::empty({1, 1, L}), {}};
  const AttentionGradients gradients{Tensor::empty(q.shape()), Tensor::empty(q.shape()), Tensor::empty(q.shape()), {}};
  // The matrix of scores would be 268 MB; a key head's dq in eight partial sums is 2 MB.
  constexpr size_t kBound = 4 << 20;
  EXPECT_LE(extra_bytes([&] { attention(q, q, q, into, o); }), kBound);
  EXPECT_LE(extra_bytes([&] { attention_backward(q, q, q, q, into, gradients, o); }), kBound);
  EXPECT_TRUE(std::isfinite(test::max_abs(gradients.k)));
  // The count itself works: an allocation of the matrix would be seen.
  EXPECT_GT(extra_bytes([&] { Tensor::empty({L, L}); }), kBound);
}

}  // namespace
}  // namespace heed
