// Extra memory grows with L, not L * L, and a call that brings a workspace allocates nothing: all that operator new and
// the pool give out during a call is counted.
#include "core/memory.h"

#include <gtest/gtest.h>

#include "attention/testing.h"
#include "tests/allocations.h"

namespace heed {
namespace {

using test::random_tensor;

/// Most bytes that f holds at once, in tensors and scratch from the pool and in all else together.
template <class F>
size_t extra_bytes(F&& f) {
  reset_peak_memory();
  const size_t pool = memory_in_use(), rest = test::allocated_bytes();
  f();
  return peak_memory() - pool + (test::allocated_bytes() - rest);
}

AttentionGradients gradients_like(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  AttentionGradients g;
  g.q = Tensor::zeros(q.shape(), q.dtype());
  g.k = Tensor::zeros(k.shape(), k.dtype());
  g.v = Tensor::zeros(v.shape(), v.dtype());
  const DType compute = test::compute_type(q.dtype());
  if (o.mask.defined() && o.mask.dtype() != DType::boolean) g.mask = Tensor::zeros(o.mask.shape(), compute);
  if (o.sinks.defined()) g.sinks = Tensor::zeros(o.sinks.shape(), compute);
  return g;
}

AttentionResult result_like(const Tensor& q, const Tensor& v) {
  AttentionResult r;
  Dims out = q.shape();
  out.back() = v.size(-1);
  r.out = Tensor::zeros(out, q.dtype());
  r.lse = q.rank() == 4 ? Tensor::zeros({q.size(0), q.size(1), q.size(2)}, test::compute_type(q.dtype()))
                        : Tensor::zeros({q.size(1), q.size(0)}, test::compute_type(q.dtype()));
  return r;
}

TEST(AttentionMemory, GrowsWithTheLengthOnly) {
  constexpr int64_t L = 8192, D = 8;
  const Tensor q = random_tensor({1, 1, L, D}, 1, DType::f32);
  const auto executor = make_executor(2);
  const AttentionOptions o{.causal = Causal::top_left, .executor = executor.get()};
  const AttentionResult into = result_like(q, q);
  const AttentionGradients gradients = gradients_like(q, q, q, o);
  // The matrix of scores would be 268 MB; a key head's dq in eight partial sums is 2 MB.
  constexpr size_t kBound = 4 << 20;
  EXPECT_LE(extra_bytes([&] { attention(q, q, q, into, o); }), kBound);
  EXPECT_LE(extra_bytes([&] { attention_backward(q, q, q, q, into, gradients, o); }), kBound);
  EXPECT_TRUE(std::isfinite(test::max_abs(gradients.k)));
  // The count itself works: an allocation of the matrix would be seen.
  EXPECT_GT(extra_bytes([&] { Tensor::empty({L, L}); }), kBound);
}

/// Runs some of the tiles, so that the memory of a long call can be seen without its time.
class Sampler : public Executor {
 public:
  explicit Sampler(int threads) : threads_(threads) {}
  void run(int64_t tiles, Tile function, void* context) override {
    for (int64_t tile = 0; tile < tiles; tile += std::max<int64_t>(1, tiles / 2)) function(context, tile);
  }
  int threads() const override { return threads_; }

 private:
  int threads_;
};

TEST(AttentionMemory, Of65536PositionsIsBelow64Megabytes) {
  constexpr int64_t L = 65536, D = 64;
  const Tensor q = random_tensor({1, 1, L, D}, 1, DType::f32);
  const Tensor mask = Tensor::zeros({L});
  for (const int threads : {1, 8}) {
    Sampler sampler(threads);
    for (const bool causal : {false, true}) {
      AttentionOptions o{.causal = causal ? Causal::top_left : Causal::none, .executor = &sampler};
      if (!causal) o.mask = mask;
      const AttentionResult into = result_like(q, q);
      const AttentionGradients gradients = gradients_like(q, q, q, o);
      constexpr size_t kBound = 64 << 20;
      EXPECT_LT(extra_bytes([&] { attention(q, q, q, into, o); }), kBound) << threads;
      EXPECT_LT(extra_bytes([&] { attention_backward(q, q, q, q, into, gradients, o); }), kBound) << threads;
    }
  }
}

TEST(AttentionMemory, ABroadcastMaskInHalfIsWidenedAsItIs) {
  constexpr int64_t L = 4096, D = 8;
  const Tensor q = random_tensor({1, 2, L, D}, 1, DType::f16);
  Sampler sampler(1);
  for (const Dims& shape : {Dims{L}, {L, 1}, {1}, {2, 1, L}}) {
    AttentionOptions o{.mask = Tensor::zeros(shape, DType::f16).expand({1, 2, L, L}), .executor = &sampler};
    const AttentionResult into = result_like(q, q);
    AttentionOptions plain = o;
    plain.mask = {};
    const AttentionGradients gradients = gradients_like(q, q, q, plain);
    // Widened to all pairs it would be 134 MB.
    constexpr size_t kBound = 4 << 20;
    EXPECT_LT(extra_bytes([&] { attention(q, q, q, into, o); }), kBound) << to_string(shape);
    EXPECT_LT(extra_bytes([&] { attention_backward(q, q, q, q, into, gradients, o); }), kBound) << to_string(shape);
  }
}

TEST(AttentionMemory, NothingIsAllocatedWithAWorkspace) {
  const auto one = make_executor(1);
  const ScoreMod mod = score_mod([](auto score, auto at) { return score + 0.1f * static_cast<float>(at.key); });
  const BlockMask blocks = block_mask([](auto at) { return at.key <= at.query + 100; }, 1, 1, 90, 200);
  const Tensor offsets = Tensor::from<int64_t>({0, 40, 90}, {3});
  struct Kind {
    const char* name;
    Dims q, k;
    AttentionOptions options;
    DType dtype;
  };
  const Kind kinds[] = {
      {"plain", {2, 4, 90, 32}, {2, 2, 200, 32}, {}, DType::f32},
      {"float64", {2, 4, 90, 32}, {2, 2, 200, 32}, {.causal = Causal::bottom_right, .dropout = 0.1}, DType::f64},
      {"bfloat16", {2, 4, 90, 32}, {2, 2, 200, 32}, {.window = {50, 3}}, DType::bf16},
      {"biases",
       {2, 4, 90, 32},
       {2, 2, 200, 32},
       {.softcap = 2.0,
        .mask = random_tensor({4, 90, 200}, 5, DType::f32),
        .alibi = random_tensor({4}, 6, DType::f32),
        .sinks = random_tensor({4}, 7, DType::f32)},
       DType::f32},
      {"functions", {2, 4, 90, 32}, {2, 2, 200, 32}, {.score_mod = mod, .block_mask = blocks}, DType::f32},
      {"ragged", {90, 4, 32}, {90, 2, 32}, {.q_offsets = offsets, .k_offsets = offsets}, DType::f32},
      {"decode", {1, 4, 1, 32}, {1, 2, 3000, 32}, {}, DType::f32},
      {"small", {1, 1, 5, 8}, {1, 1, 6, 8}, {}, DType::f32}};
  for (const Kind& kind : kinds) {
    const Tensor q = random_tensor(kind.q, 1, kind.dtype), k = random_tensor(kind.k, 2, kind.dtype),
                 v = random_tensor(kind.k, 3, kind.dtype), grad = random_tensor(kind.q, 4, kind.dtype);
    Workspace workspace;
    AttentionOptions o = kind.options;
    o.executor = one.get();
    o.workspace = &workspace;
    const AttentionResult into = result_like(q, v);
    const AttentionGradients gradients = gradients_like(q, k, v, o);
    const auto calls = [&](auto&& f) {
      f();
      const int64_t before = test::allocations();
      const size_t held = workspace.size();
      f();
      EXPECT_EQ(workspace.size(), held) << kind.name;
      return test::allocations() - before;
    };
    EXPECT_EQ(calls([&] { attention(q, k, v, into, o); }), 0) << kind.name;
    EXPECT_EQ(calls([&] { attention_backward(grad, q, k, v, into, gradients, o); }), 0) << kind.name;
  }
  const int64_t before = test::allocations();
  Tensor::empty({1});
  EXPECT_GT(test::allocations() - before, 0);  // the pool is seen
}

}  // namespace
}  // namespace heed
