// Bits do not depend on the number of threads, and calls may come from several threads at once.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "attention/testing.h"

namespace heed {
namespace {

using test::random_tensor;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

struct Inputs {
  Tensor q, k, v, grad;
  AttentionOptions options;
};

std::vector<Tensor> all_outputs(const Inputs& in, Executor& executor) {
  AttentionOptions o = in.options;
  o.executor = &executor;
  o.want_lse = o.want_weights = true;
  const AttentionResult r = attention(in.q, in.k, in.v, o);
  const AttentionGradients g = attention_backward(in.grad, in.q, in.k, in.v, r, o, o.mask.defined());
  std::vector<Tensor> list = {r.out, r.lse, r.weights, g.q, g.k, g.v};
  if (o.mask.defined()) list.push_back(g.mask);
  return list;
}

std::vector<Inputs> cases() {
  const auto make = [](const Dims& q, const Dims& k, AttentionOptions o) {
    return Inputs{random_tensor(q, 1, DType::f32), random_tensor(k, 2, DType::f32), random_tensor(k, 3, DType::f32),
                  random_tensor(q, 4, DType::f32), o};
  };
  return {make({1, 2, 450, 16}, {1, 1, 1100, 16}, {.causal = Causal::bottom_right, .dropout = 0.1, .seed = 3}),
          make({60, 4, 10, 16}, {60, 4, 12, 16}, {}),
          make({2, 2, 150, 8}, {2, 2, 150, 8}, {.mask = random_tensor({150, 150}, 5, DType::f32)}),
          make({2, 2, 150, 8}, {2, 2, 150, 8}, {.mask = random_tensor({2, 1, 1, 150}, 5, DType::f32)})};
}

TEST(AttentionThreads, SameBitsForAnyNumber) {
  const auto one = make_executor(1);
  for (const Inputs& in : cases()) {
    const std::vector<Tensor> expected = all_outputs(in, *one);
    for (const int threads : {2, 3, 8}) {
      const auto executor = make_executor(threads);
      const std::vector<Tensor> got = all_outputs(in, *executor);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << threads << ", " << i;
    }
  }
}

TEST(AttentionThreads, ConcurrentCalls) {
  const std::vector<Inputs> inputs = cases();
  const auto one = make_executor(1);
  std::vector<std::vector<Tensor>> expected;
  for (const Inputs& in : inputs) expected.push_back(all_outputs(in, *one));
  std::vector<std::thread> callers;
  std::vector<char> same(4, 0);
  for (size_t n = 0; n < same.size(); ++n) {
    callers.emplace_back([&, n] {
      bool equal = true;
      for (size_t round = 0; round < inputs.size(); ++round) {
        const size_t at = (n + round) % inputs.size();
        const std::vector<Tensor> got = all_outputs(inputs[at], default_executor());
        for (size_t i = 0; i < got.size(); ++i) equal = equal && same_bits(got[i], expected[at][i]);
      }
      same[n] = equal;
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(same, std::vector<char>(4, 1));
}

}  // namespace
}  // namespace heed
