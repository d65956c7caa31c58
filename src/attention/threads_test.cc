// Bits do not depend on the number of threads nor on where tensors lie, and calls may come from several threads at
// once.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "attention/testing.h"

namespace heed {
namespace {

using test::Call;
using test::random_tensor;
using test::same_bits;

/// Outputs, gradients, scores, selected weights: all that a call can give.
std::vector<Tensor> all_outputs(const Call& call, Executor& executor) {
  const test::Outputs r = test::run(call, &executor);
  std::vector<Tensor> list = {r.result.out,  r.result.lse,  r.result.weights, r.result.scores,  r.gradients.q,
                              r.gradients.k, r.gradients.v, r.gradients.mask, r.gradients.sinks};
  AttentionOptions o = call.options;
  o.executor = &executor;
  o.want_weights = true;
  o.selection.top_p = 0.8;
  const TopWeights top = attention(call.q, call.k, call.v, o).top;
  list.insert(list.end(), {top.offsets, top.keys, top.weights});
  return list;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i)
    equal = a[i].defined() == b[i].defined() && (!a[i].defined() || same_bits(a[i], b[i]));
  return equal;
}

struct Case {
  const char* name;
  Call call;
};

std::vector<Case> cases() {
  const auto make = [](const Dims& q, const Dims& k, AttentionOptions o, DType dtype = DType::f32) {
    Call c{random_tensor(q, 1), random_tensor(k, 2), random_tensor(k, 3), random_tensor(q, 4)};
    if (q.rank() == 4) c.grad_lse = random_tensor({q[0], q[1], q[2]}, 5);
    c.options = o;
    return test::converted(c, dtype);
  };
  const ScoreMod mod = score_mod([](auto score, auto at) { return score * score + static_cast<float>(at.head); });
  const BlockMask blocks = block_mask([](auto at) { return (at.query + at.key) % 100 < 50; }, 1, 1, 150, 150);
  const Tensor offsets = Tensor::from<int32_t>({0, 3, 3, 190, 200, 275}, {6});
  return {
      {"few long heads",
       make({1, 2, 450, 16}, {1, 1, 1100, 16}, {.causal = Causal::bottom_right, .dropout = 0.1, .seed = 3})},
      {"many short", make({60, 4, 10, 16}, {60, 4, 12, 16}, {})},
      {"mask of pairs", make({2, 2, 150, 8}, {2, 2, 150, 8}, {.mask = random_tensor({150, 150}, 5)})},
      {"mask of keys", make({2, 2, 150, 8}, {2, 2, 150, 8}, {.mask = random_tensor({2, 1, 1, 150}, 5)})},
      {"score_mod, block_mask, sinks",
       make({2, 4, 150, 8}, {2, 2, 150, 8}, {.score_mod = mod, .block_mask = blocks, .sinks = random_tensor({4}, 6)})},
      {"window, softcap, ALiBi",
       make({1, 4, 300, 8}, {1, 1, 300, 8},
            {.causal = Causal::top_left, .window = {90, 0}, .softcap = 2.0, .alibi = random_tensor({4}, 6)})},
      {"ragged, dropout",
       make({275, 4, 16}, {275, 2, 16},
            {.causal = Causal::bottom_right, .q_offsets = offsets, .k_offsets = offsets, .dropout = 0.2})},
      {"one query", make({1, 8, 1, 32}, {1, 2, 5000, 32}, {.want_scores = ScoreStage::masked})},
      {"one query, key lengths",
       make({3, 4, 1, 32}, {3, 1, 2100, 32}, {.key_lengths = Tensor::from<int64_t>({2100, 0, 700}, {3})})},
      {"band", make({1, 2, 1536, 8}, {1, 1, 1536, 8}, {.causal = Causal::top_left, .window = {370, 0}})},
      {"band, bfloat16",
       make({1, 2, 700, 24}, {1, 1, 700, 24}, {.causal = Causal::top_left, .window = {160, 0}}, DType::bf16)},
      {"float16", make({1, 2, 200, 24}, {1, 1, 300, 24}, {.causal = Causal::bottom_right}, DType::f16)},
      {"ranges of keys", make({2, 2, 520, 32}, {2, 2, 520, 32}, {})},
      {"ranges of keys, float64", make({1, 1, 320, 32}, {1, 1, 320, 32}, {.causal = Causal::top_left}, DType::f64)},
      {"float64", make({1, 2, 200, 24}, {1, 1, 300, 24}, {.dropout = 0.5}, DType::f64)}};
}

TEST(AttentionThreads, SameBitsForAnyNumber) {
  const auto one = make_executor(1);
  for (const Case& c : cases()) {
    const std::vector<Tensor> expected = all_outputs(c.call, *one);
    for (int threads = 2; threads <= 8; ++threads) {
      const auto executor = make_executor(threads);
      EXPECT_TRUE(same(all_outputs(c.call, *executor), expected)) << c.name << ", " << threads << " threads";
    }
  }
}

/// Runs tiles from the last to the first.
class Backwards : public Executor {
 public:
  void run(int64_t tiles, Tile function, void* context) override {
    for (int64_t tile = tiles; tile-- > 0;) function(context, tile);
  }
  int threads() const override { return 3; }
};

TEST(AttentionThreads, SameBitsForAnyOrderOfTiles) {
  const auto one = make_executor(1);
  Backwards backwards;
  for (const Case& c : cases()) EXPECT_TRUE(same(all_outputs(c.call, backwards), all_outputs(c.call, *one))) << c.name;
}

TEST(AttentionThreads, SameBitsWhereverTensorsLie) {
  const auto scattered = [](const Tensor& t) { return test::strided_copy(t); };
  for (const Case& c : cases()) {
    const Call& call = c.call;
    AttentionOptions o = call.options;
    o.want_lse = true;
    const AttentionResult near = attention(call.q, call.k, call.v, o);
    const AttentionGradients expected = attention_backward(call.grad, call.q, call.k, call.v, near, o);
    const Tensor q = scattered(call.q), k = scattered(call.k), v = scattered(call.v), grad = scattered(call.grad);
    AttentionResult far;
    far.out = scattered(near.out), far.lse = near.lse.clone(), far.lse_low = near.lse_low.clone();
    attention(q, k, v, far, o);
    AttentionGradients gradients;
    gradients.q = scattered(call.q), gradients.k = scattered(call.k), gradients.v = scattered(call.v);
    attention_backward(grad, q, k, v, far, gradients, o);
    EXPECT_TRUE(same_bits(far.out, near.out)) << c.name;
    EXPECT_TRUE(same_bits(gradients.q, expected.q)) << c.name;
    EXPECT_TRUE(same_bits(gradients.k, expected.k)) << c.name;
    EXPECT_TRUE(same_bits(gradients.v, expected.v)) << c.name;
  }
}

TEST(AttentionThreads, ConcurrentCalls) {
  const std::vector<Case> list = cases();
  const auto one = make_executor(1);
  std::vector<std::vector<Tensor>> expected;
  for (const Case& c : list) expected.push_back(all_outputs(c.call, *one));
  std::vector<std::thread> callers;
  std::vector<std::string> different(4);
  for (size_t n = 0; n < different.size(); ++n) {
    callers.emplace_back([&, n] {
      Workspace workspace;  // one for each thread
      for (size_t round = 0; round < list.size(); ++round) {
        const size_t at = (n + round) % list.size();
        Call call = list[at].call;
        if (n % 2) call.options.workspace = &workspace;
        if (!same(all_outputs(call, default_executor()), expected[at])) different[n] += list[at].name;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (const std::string& names : different) EXPECT_EQ(names, "");
}

TEST(AttentionThreads, VisitorSeesTheSameTilesInTheSameOrder) {
  const Call call = cases()[4].call;
  const auto visits = [&](Executor& executor) {
    AttentionOptions o = call.options;
    o.want_lse = true;
    o.executor = &executor;
    std::vector<double> seen;
    BackwardOptions b;
    const std::thread::id caller = std::this_thread::get_id();
    b.visitor = score_visitor([&seen, caller](auto gradient, auto score, ScoreAt at) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      seen.insert(seen.end(), {static_cast<double>(gradient), gradient == 0 ? 0.0 : static_cast<double>(score),
                               static_cast<double>(at.batch), static_cast<double>(at.head),
                               static_cast<double>(at.query), static_cast<double>(at.key)});
    });
    attention_backward(call.grad, call.q, call.k, call.v, attention(call.q, call.k, call.v, o), o, b);
    return seen;
  };
  const auto one = make_executor(1), five = make_executor(5);
  const std::vector<double> expected = visits(*one);
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(visits(*five) == expected);
}

}  // namespace
}  // namespace heed
