// Ragged batches: entries one behind another in one tensor, each as if it were alone.
#include <gtest/gtest.h>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_error;
using test::random_tensor;
using test::same_bits;

constexpr int64_t kHq = 4, kHkv = 2, kD = 12, kDv = 7;

/// Entries of the given numbers of queries and keys.
struct Entries {
  std::vector<int64_t> q{0}, k{0};  // offsets
  Entries(std::initializer_list<std::pair<int64_t, int64_t>> sizes) {
    for (const auto& [queries, keys] : sizes) q.push_back(q.back() + queries), k.push_back(k.back() + keys);
  }
  int64_t count() const { return static_cast<int64_t>(q.size()) - 1; }
  test::Call call(AttentionOptions o = {}) const {
    o.q_offsets = Tensor::from(q, {count() + 1});
    o.k_offsets = Tensor::from(k, {count() + 1}).to(DType::i32);
    test::Call c{random_tensor({q.back(), kHq, kD}, 1), random_tensor({k.back(), kHkv, kD}, 2),
                 random_tensor({k.back(), kHkv, kDv}, 3), random_tensor({q.back(), kHq, kDv}, 4)};
    c.grad_lse = random_tensor({kHq, q.back()}, 5);
    c.options = o;
    return c;
  }
};

class Ragged : public ::testing::TestWithParam<Implementation> {
 protected:
  void expect_textbook(const Entries& entries, AttentionOptions o = {}) const {
    o.implementation = GetParam();
    const test::Call call = entries.call(o);
    const test::Textbook exact = call.book<double>();
    for (const test::Accuracy& a : accuracies(test::run(call), exact, exact))
      EXPECT_LE(a.error(), 1e-12 * (1 + test::max_abs(a.exact))) << a.name;
  }
};

TEST_P(Ragged, EntriesOfAnySize) {
  expect_textbook({{5, 6}});
  expect_textbook({{1, 1}, {1, 1}, {1, 1}});
  expect_textbook({{70, 3}, {2, 140}, {64, 64}, {65, 129}, {1, 200}});
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
    expect_textbook({{0, 0}, {3, 0}, {0, 4}, {5, 5}, {0, 0}, {7, 2}}, {.causal = causal});
}

TEST_P(Ragged, NothingAtAll) {
  expect_textbook({});
  expect_textbook({{0, 0}});
  expect_textbook({{0, 0}, {0, 3}});
  expect_textbook({{3, 0}});
}

TEST_P(Ragged, Options) {
  const Entries entries{{70, 90}, {3, 0}, {30, 10}, {80, 150}};
  const Tensor alibi = random_tensor({kHq}, 6), sinks = random_tensor({kHq}, 7);
  const ScoreMod mod = score_mod([](auto score, auto at) {
    return score * score * 0.25f + 0.125f * static_cast<float>(at.batch + at.head) - 0.01f * static_cast<float>(at.key);
  });
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    expect_textbook(entries, {.causal = causal, .window = {20, 9}});
    expect_textbook(entries, {.causal = causal, .softcap = 1.0, .alibi = alibi, .sinks = sinks});
    expect_textbook(entries, {.causal = causal, .score_mod = mod, .dropout = 0.3, .seed = 2});
    expect_textbook(entries, {.causal = causal, .want_scores = ScoreStage::masked});
    expect_textbook(entries, {.causal = causal, .want_scores = ScoreStage::weights});
  }
  expect_textbook(entries, {.causal = Causal::top_left, .offset = 5});
}

TEST_P(Ragged, AnEntryIsTheDenseCall) {
  const Entries entries{{70, 90}, {13, 20}};
  AttentionOptions o{.causal = Causal::bottom_right, .want_lse = true, .implementation = GetParam()};
  const test::Call call = entries.call(o);
  const AttentionResult all = attention(call.q, call.k, call.v, call.options);
  for (size_t b = 0; b < 2; ++b) {
    const auto dense = [](const Tensor& t, int64_t from, int64_t to) {  // (1, H, L, D)
      return t.slice(0, from, to).transpose(0, 1).reshape({1, t.size(1), to - from, t.size(2)});
    };
    const AttentionResult one =
        attention(dense(call.q, entries.q[b], entries.q[b + 1]), dense(call.k, entries.k[b], entries.k[b + 1]),
                  dense(call.v, entries.k[b], entries.k[b + 1]), o);
    EXPECT_LE(max_error(dense(all.out, entries.q[b], entries.q[b + 1]), one.out), 1e-14);
    EXPECT_LE(max_error(all.lse.slice(1, entries.q[b], entries.q[b + 1]), one.lse.select(0, 0)), 1e-14);
  }
}

TEST_P(Ragged, NeighboursDoNotTouch) {
  const Entries entries{{70, 70}, {1, 130}, {10, 9}};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    test::Call call = entries.call({.implementation = GetParam()});
    const test::Outputs clean = test::run(test::converted(call, dtype));
    for (const Tensor& t :
         {call.q.slice(0, 70, 71), call.k.slice(0, 70, 200), call.v.slice(0, 70, 200), call.grad.slice(0, 70, 71)})
      t.fill(NAN);
    const test::Outputs r = test::run(test::converted(call, dtype));
    for (const auto& [x, y] : {std::pair{clean.result.out, r.result.out}, {clean.gradients.q, r.gradients.q}}) {
      EXPECT_TRUE(same_bits(x.slice(0, 0, 70), y.slice(0, 0, 70)));
      EXPECT_FALSE(same_bits(x.slice(0, 70, 71), y.slice(0, 70, 71)));
      EXPECT_TRUE(same_bits(x.slice(0, 71, 81), y.slice(0, 71, 81)));
    }
    for (const auto& [x, y] : {std::pair{clean.gradients.k, r.gradients.k}, {clean.gradients.v, r.gradients.v}}) {
      EXPECT_TRUE(same_bits(x.slice(0, 0, 70), y.slice(0, 0, 70)));
      EXPECT_TRUE(same_bits(x.slice(0, 200, 209), y.slice(0, 200, 209)));
    }
  }
}

TEST_P(Ragged, InOnePackedTensor) {
  const Entries entries{{30, 30}, {66, 66}};
  const Tensor packed = random_tensor({96, 3, kHq, kD}, 8, DType::f32);  // q, k and v of a token side by side
  const auto part = [&](int64_t n) { return packed.select(1, n); };
  AttentionOptions o = entries.call().options;
  o.implementation = GetParam();
  AttentionResult into;
  const Tensor memory = Tensor::full({96, 2, kHq, kD + 1}, NAN);
  into.out = memory.select(1, 1).slice(2, 0, kD);
  attention(part(0), part(1), part(2), into, o);
  EXPECT_TRUE(same_bits(into.out, attention(part(0).clone(), part(1).clone(), part(2).clone(), o).out));
}

TEST_P(Ragged, SelectedWeights) {
  const Entries entries{{70, 90}, {3, 0}, {30, 10}};
  AttentionOptions o{.causal = Causal::bottom_right, .want_weights = true, .implementation = GetParam()};
  test::Call call = entries.call(o);
  const Tensor all = call.book<double>().weights;  // (Hq, Tq, 90)
  call.options.selection.heads = Tensor::from<int64_t>({2, 0}, {2});
  const Tensor some = attention(call.q, call.k, call.v, call.options).weights;
  ASSERT_TRUE(some.shape() == Dims({2, 103, 90}));
  EXPECT_LE(max_error(some.select(0, 0), all.select(0, 2)), 1e-14);
  EXPECT_LE(max_error(some.select(0, 1), all.select(0, 0)), 1e-14);
  call.options.selection.top_p = 0.5;
  const TopWeights top = attention(call.q, call.k, call.v, call.options).top;
  ASSERT_EQ(top.offsets.numel(), 2 * 103 + 1);
  for (int64_t row = 0; row < 206; ++row) {
    const int64_t from = top.offsets.at<int64_t>(row), to = top.offsets.at<int64_t>(row + 1), i = row % 103;
    const Tensor weights = all.select(0, row < 103 ? 2 : 0).select(0, i);
    EXPECT_EQ(to == from, test::max_abs(weights) == 0) << row;  // without keys, or before the first
    for (int64_t e = from; e < to; ++e)
      EXPECT_NEAR(top.weights.at<double>(e), weights.at<double>(top.keys.at<int64_t>(e)), 1e-14);
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, Ragged, ::testing::Values(Implementation::reference, Implementation::fused),
                         [](const auto& test) {
                           return test.param == Implementation::reference ? "Reference" : "Fused";
                         });

}  // namespace
}  // namespace heed
