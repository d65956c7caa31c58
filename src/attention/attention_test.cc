// The public call: options, edges, hidden NaN; by every implementation.
#include "heed/attention.h"

#include <gtest/gtest.h>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::Textbook;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Attention : public ::testing::TestWithParam<Implementation> {
 protected:
  AttentionOptions options(AttentionOptions o = {}) const {
    o.implementation = GetParam();
    return o;
  }
  /// Forward and backward in double against the textbook.
  void expect_textbook(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions o,
                       double tolerance = 1e-12) const {
    test::Call call{q, k, v, random_tensor({q.size(0), q.size(1), q.size(2), v.size(3)}, 99)};
    call.grad_lse = random_tensor({q.size(0), q.size(1), q.size(2)}, 98);
    call.options = options(o);
    const Textbook exact = call.book<double>();
    for (const test::Accuracy& a : accuracies(test::run(call), exact, exact))
      EXPECT_LE(a.error(), tolerance * (1 + max_abs(a.exact))) << a.name;
  }
};

TEST_P(Attention, PrintedNumbers) {
  // One query (1, 0), keys (1, 0) and (0, 1): weights e^s / (e^s + 1) with s = 1 / sqrt(2).
  const Tensor q = Tensor::from<double>({1, 0}, {1, 1, 1, 2});
  const Tensor k = Tensor::from<double>({1, 0, 0, 1}, {1, 1, 2, 2});
  const Tensor v = Tensor::from<double>({10, 20, 30, 40, 50, 60}, {1, 1, 2, 3});
  const AttentionResult r = attention(q, k, v, options({.want_lse = true, .want_weights = true}));
  const double w = 0.6697615493266569;
  EXPECT_NEAR(r.weights.at<double>(0, 0, 0, 0), w, 1e-15);
  EXPECT_NEAR(r.weights.at<double>(0, 0, 0, 1), 1 - w, 1e-15);
  for (int d = 0; d < 3; ++d)
    EXPECT_NEAR(r.out.at<double>(0, 0, 0, d), w * 10 * (d + 1) + (1 - w) * 10 * (d + 4), 1e-13);
  EXPECT_NEAR(r.lse.at<double>(0, 0, 0), std::log(std::exp(std::sqrt(0.5)) + 1), 1e-15);
}

TEST_P(Attention, GroupedHeadsAndUnequalSizes) {
  expect_textbook(random_tensor({2, 6, 9, 5}, 1), random_tensor({2, 2, 7, 5}, 2), random_tensor({2, 2, 7, 3}, 3), {});
  expect_textbook(random_tensor({1, 3, 70, 17}, 1), random_tensor({1, 1, 133, 17}, 2),
                  random_tensor({1, 1, 133, 33}, 3), {.scale = 0.7});
}

TEST_P(Attention, CausalKinds) {
  for (const Causal causal : {Causal::top_left, Causal::bottom_right})
    for (const auto& [lq, lk] : {std::pair{5, 5}, {3, 8}, {8, 3}, {1, 6}, {6, 1}, {70, 150}, {150, 70}})
      expect_textbook(random_tensor({1, 2, lq, 4}, 1), random_tensor({1, 2, lk, 4}, 2), random_tensor({1, 2, lk, 4}, 3),
                      {.causal = causal});
}

TEST_P(Attention, KeyLengths) {
  const Tensor q = random_tensor({4, 2, 6, 4}, 1), k = random_tensor({4, 1, 9, 4}, 2),
               v = random_tensor({4, 1, 9, 5}, 3);
  const Tensor narrow = Tensor::from<int32_t>({9, 0, 1, 4}, {4});
  const Tensor wide = Tensor::from<int64_t>({9, -5, 0, -5, 1, -5, 4, -5}, {4, 2}).select(1, 0);
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    expect_textbook(q, k, v, {.causal = causal, .key_lengths = narrow});
    expect_textbook(q, k, v, {.causal = causal, .key_lengths = wide});
  }
}

TEST_P(Attention, MasksOfEveryBroadcast) {
  const Dims full{2, 4, 7, 10};
  const Tensor q = random_tensor({2, 4, 7, 6}, 1), k = random_tensor({2, 2, 10, 6}, 2),
               v = random_tensor({2, 2, 10, 6}, 3);
  for (int bits = 0; bits < 16; ++bits) {
    Dims shape = full;
    for (int d = 0; d < 4; ++d)
      if (bits >> d & 1) shape[d] = 1;
    const Tensor additive = random_tensor(shape, 4 + static_cast<uint64_t>(bits));
    const Tensor boolean = Tensor::zeros(shape, DType::boolean);
    for (int64_t i = 0; i < additive.numel(); ++i) {
      boolean.data<bool>()[i] = additive.data<double>()[i] > -0.5;
      if (i % 5 == 2) additive.data<double>()[i] = -INFINITY;
    }
    expect_textbook(q, k, v, {.mask = additive});
    expect_textbook(q, k, v, {.mask = boolean, .key_lengths = Tensor::from<int32_t>({10, 6}, {2})});
    expect_textbook(q, k, v, {.causal = Causal::bottom_right, .mask = additive});
  }
  expect_textbook(q, k, v, {.mask = random_tensor({10}, 5)});                     // fewer dimensions
  expect_textbook(q, k, v, {.mask = random_tensor({10, 7}, 5).transpose(0, 1)});  // strided
}

TEST_P(Attention, ShortMasksHideTheRest) {
  const Tensor q = random_tensor({2, 4, 7, 6}, 1), k = random_tensor({2, 2, 10, 6}, 2),
               v = random_tensor({2, 2, 10, 6}, 3);
  for (const Dims& shape : {Dims{9}, {7, 2}, {4, 1, 5}, {2, 1, 7, 9}})
    expect_textbook(q, k, v, {.mask = random_tensor(shape, 4)});
  // Shorter than a tile, longer, and at its edge.
  const Tensor long_q = random_tensor({1, 1, 70, 4}, 1), long_k = random_tensor({1, 1, 200, 4}, 2);
  for (const int64_t keys : {2, 63, 64, 65, 128, 199})
    expect_textbook(long_q, long_k, long_k, {.mask = random_tensor({70, keys}, 5)});
}

TEST_P(Attention, OffsetsAndWindows) {
  const Tensor q = random_tensor({2, 2, 70, 4}, 1), k = random_tensor({2, 2, 150, 4}, 2);
  const Tensor lengths = Tensor::from<int32_t>({150, 31}, {2});
  for (const int64_t offset : {-80, -5, 0, 3, 64, 149, 150, 1000})
    expect_textbook(q, k, k, {.causal = Causal::top_left, .offset = offset});
  for (const Window& w : {Window{0, 0}, {5, -1}, {-1, 5}, {64, 64}, {3, 100}, {1000, 1000}})
    for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      expect_textbook(q, k, k, {.causal = causal, .window = w});
      expect_textbook(q, k, k, {.causal = causal, .window = w, .key_lengths = lengths});
      if (causal != Causal::bottom_right) expect_textbook(q, k, k, {.causal = causal, .offset = 40, .window = w});
    }
  constexpr int64_t kFar = int64_t{1} << 50;
  expect_textbook(q, k, k, {.offset = kFar, .window = {kFar, kFar}});
  expect_textbook(q, k, k, {.causal = Causal::top_left, .offset = -kFar});
}

TEST_P(Attention, AlibiSoftcapAndSinks) {
  const Tensor q = random_tensor({2, 4, 9, 5}, 1), k = random_tensor({2, 2, 70, 5}, 2),
               v = random_tensor({2, 2, 70, 3}, 3);
  const Tensor alibi = Tensor::from<double>({0.5, 0.25, 0, -0.125}, {4}),
               sinks = Tensor::from<double>({-INFINITY, -3, 0, 9}, {4});
  expect_textbook(q, k, v, {.alibi = alibi});
  expect_textbook(q, k, v, {.causal = Causal::bottom_right, .alibi = alibi});
  expect_textbook(q, k, v, {.offset = 61, .alibi = alibi});
  expect_textbook(q, k, v, {.softcap = 0.7});
  expect_textbook(q, k, v, {.softcap = 50.0, .mask = random_tensor({70}, 4), .alibi = alibi});
  expect_textbook(q, k, v, {.sinks = sinks});
  expect_textbook(q, k, v,
                  {.causal = Causal::top_left, .softcap = 3.0, .alibi = alibi, .sinks = sinks, .dropout = 0.4});
}

TEST_P(Attention, SinksArePrintedNumbers) {
  // Scores 0 and 0 with a sink of log 2: weights 1/4 and 1/4, lse log 4; and where no key is seen, lse is the sink.
  const Tensor zero = Tensor::zeros({2, 1, 1, 1}, DType::f64), k = Tensor::zeros({2, 1, 2, 1}, DType::f64);
  const Tensor v = Tensor::from<double>({1, 3, 1, 3}, {2, 1, 2, 1});
  const AttentionOptions o = options({.sinks = Tensor::full({1}, std::log(2.0), DType::f64),
                                      .key_lengths = Tensor::from<int32_t>({2, 0}, {2}),
                                      .want_lse = true,
                                      .want_weights = true});
  const AttentionResult r = attention(zero, k, v, o);
  EXPECT_NEAR(r.out.at<double>(0, 0, 0, 0), 1, 1e-15);
  EXPECT_NEAR(r.weights.at<double>(0, 0, 0, 1), 0.25, 1e-15);
  EXPECT_NEAR(r.lse.at<double>(0, 0, 0), std::log(4.0), 1e-15);
  EXPECT_EQ(r.out.at<double>(1, 0, 0, 0), 0);
  EXPECT_NEAR(r.lse.at<double>(1, 0, 0), std::log(2.0), 1e-15);
}

TEST_P(Attention, ScoreAndBlockMasks) {
  const Tensor q = random_tensor({2, 4, 70, 5}, 1), k = random_tensor({2, 2, 150, 5}, 2);
  const ScoreMod mod = score_mod([](auto score, auto at) {
    return score * 0.5f + 0.01f * static_cast<float>((at.key - at.query) * (at.head + 2 * at.batch));
  });
  expect_textbook(q, k, k, {.score_mod = mod});
  expect_textbook(q, k, k,
                  {.causal = Causal::bottom_right, .softcap = 2.0, .score_mod = mod, .mask = random_tensor({150}, 3)});
  const auto documents = [](auto at) { return at.query / 20 == at.key / 40 && at.head + at.batch != 2; };
  for (const AttentionOptions& o : {AttentionOptions{}, {.causal = Causal::top_left, .score_mod = mod}})
    for (const int64_t B : {1, 2}) {
      AttentionOptions masked = o;
      masked.block_mask =
          B == 2 ? block_mask(documents, 2, 4, 70, 150)
                 : block_mask([](auto at) { return (at.query / 64 + at.key / 64) % 2 == 0; }, 1, 1, 70, 150);
      expect_textbook(q, k, k, masked);
    }
  EXPECT_DOUBLE_EQ(block_mask([](auto at) { return at.key < 64; }, 1, 1, 70, 150).sparsity(), 4.0 / 6);
}

TEST_P(Attention, Dropout) {
  const Tensor q = random_tensor({2, 2, 21, 8}, 1), k = random_tensor({2, 2, 37, 8}, 2),
               v = random_tensor({2, 2, 37, 8}, 3);
  expect_textbook(q, k, v, {.dropout = 0.3, .seed = 7, .stream = 1ull << 40 | 3});
  expect_textbook(q, k, v, {.causal = Causal::top_left, .dropout = 0.9, .seed = ~0ull});
  expect_textbook(q, k, v, {.dropout = 1e-12});
  const AttentionOptions one = options({.dropout = 0.5, .seed = 1}), other = options({.dropout = 0.5, .seed = 2});
  EXPECT_GT(max_error(attention(q, k, v, one).out, attention(q, k, v, other).out), 0.01);
}

TEST_P(Attention, DropoutKeepsTheMean) {
  // Values of 1: each output is the share of weight kept, 1 on average.
  const Tensor q = Tensor::zeros({4, 4, 64, 4}), k = Tensor::zeros({4, 4, 64, 4}), v = Tensor::full({4, 4, 64, 1}, 1);
  const Tensor out = attention(q, k, v, options({.dropout = 0.25, .seed = 3}));
  double mean = 0;
  for (const float x : out.span<float>()) mean += static_cast<double>(x) / static_cast<double>(out.numel());
  EXPECT_NEAR(mean, 1, 0.005);  // deviation sqrt(p / (1 - p) / 65536) = 0.0023
}

TEST_P(Attention, NothingToAttendGivesZeros) {
  const Tensor q = random_tensor({2, 1, 3, 4}, 1), k = random_tensor({2, 1, 5, 4}, 2),
               v = random_tensor({2, 1, 5, 4}, 3), grad = random_tensor({2, 1, 3, 4}, 4);
  const AttentionOptions o =
      options({.key_lengths = Tensor::from<int32_t>({0, 5}, {2}), .want_lse = true, .want_weights = true});
  const AttentionResult r = attention(q, k, v, o);
  const AttentionGradients g = attention_backward(grad, q, k, v, r, o);
  EXPECT_EQ(max_abs(r.out.select(0, 0)), 0);
  EXPECT_EQ(max_abs(r.weights.select(0, 0)), 0);
  EXPECT_EQ(r.lse.at<double>(0, 0, 0), -INFINITY);
  for (const Tensor& t : {g.q, g.k, g.v}) {
    EXPECT_EQ(max_error(t.select(0, 0), Tensor::zeros(t.select(0, 0).shape(), DType::f64)), 0);
    EXPECT_GT(max_abs(t.select(0, 1)), 0);
  }
}

TEST_P(Attention, SizesOfZero) {
  for (const Dims& s : {Dims{0, 2, 3, 4}, {2, 0, 3, 4}, {2, 2, 0, 4}}) {
    const Tensor t = Tensor::zeros(s, DType::f64);
    expect_textbook(t, t, t, {});
  }
  expect_textbook(random_tensor({1, 2, 3, 4}, 1), Tensor::zeros({1, 2, 0, 4}, DType::f64),
                  Tensor::zeros({1, 2, 0, 4}, DType::f64), {});
  expect_textbook(random_tensor({1, 2, 3, 4}, 1), random_tensor({1, 2, 5, 4}, 2),
                  Tensor::zeros({1, 2, 5, 0}, DType::f64), {});
}

TEST_P(Attention, StridedViewsGiveTheSame) {
  const Tensor q = random_tensor({2, 3, 11, 9}, 1, DType::f32), k = random_tensor({2, 3, 13, 9}, 2, DType::f32),
               v = random_tensor({2, 3, 13, 7}, 3, DType::f32), grad = random_tensor({2, 3, 11, 7}, 4, DType::f32);
  const AttentionOptions o = options({.causal = Causal::bottom_right, .want_lse = true});
  const AttentionResult a = attention(q, k, v, o);
  AttentionResult b;
  b.out = test::strided_copy(Tensor::zeros(a.out.shape())), b.lse = Tensor::zeros(a.lse.shape());
  b.lse_low = Tensor::zeros(a.lse.shape());
  attention(test::strided_copy(q), test::strided_copy(k), test::strided_copy(v), b, o);
  EXPECT_EQ(max_error(a.out, b.out), 0);
  EXPECT_EQ(max_error(a.lse, b.lse), 0);
  const AttentionGradients ga = attention_backward(grad, q, k, v, a, o);
  AttentionGradients gb;
  gb.q = test::strided_copy(Tensor::zeros(q.shape()));
  gb.k = test::strided_copy(Tensor::zeros(k.shape()));
  gb.v = test::strided_copy(Tensor::zeros(v.shape()));
  attention_backward(test::strided_copy(grad), test::strided_copy(q), test::strided_copy(k), test::strided_copy(v), b,
                     gb, o);
  EXPECT_EQ(max_error(ga.q, gb.q), 0);
  EXPECT_EQ(max_error(ga.k, gb.k), 0);
  EXPECT_EQ(max_error(ga.v, gb.v), 0);
}

TEST_P(Attention, BroadcastBatchOfKeys) {
  const Tensor q = random_tensor({3, 2, 5, 4}, 1), k = random_tensor({1, 2, 6, 4}, 2),
               v = random_tensor({1, 2, 6, 4}, 3);
  const Tensor out = attention(q, k.expand({3, 2, 6, 4}), v.expand({3, 2, 6, 4}), options());
  for (int64_t b = 0; b < 3; ++b)
    EXPECT_LE(max_error(out.slice(0, b, b + 1), attention(q.slice(0, b, b + 1), k, v, options()).out), 1e-15);
}

TEST_P(Attention, NaNReachesOnlyTheRowsThatMayAttend) {
  for (const double poison : {kNaN, static_cast<double>(INFINITY)}) {
    for (const int64_t L : {6, 150}) {
      const int64_t at = L / 2;
      for (const bool in_value : {false, true}) {
        const Tensor q = random_tensor({1, 1, L, 4}, 1, DType::f32), k = random_tensor({1, 1, L, 4}, 2, DType::f32),
                     v = random_tensor({1, 1, L, 4}, 3, DType::f32), grad = random_tensor({1, 1, L, 4}, 4, DType::f32);
        const AttentionOptions causal = options({.causal = Causal::top_left, .want_lse = true, .want_weights = true});
        (in_value ? v : k).fill(0.5);
        const AttentionResult filled = attention(q, k, v, causal);
        (in_value ? v : k).at<float>(0, 0, at, 1) = static_cast<float>(poison);
        const AttentionResult r = attention(q, k, v, causal);
        const AttentionGradients g = attention_backward(grad, q, k, v, r, causal);
        for (int64_t i = 0; i < L; ++i) {
          if (i < at) {
            EXPECT_TRUE(std::isfinite(g.q.at<float>(0, 0, i, 1))) << i;
            for (int64_t d = 0; d < 4; ++d) EXPECT_EQ(r.out.at<float>(0, 0, i, d), filled.out.at<float>(0, 0, i, d));
          } else if (std::isnan(poison)) {  // q . Inf may be -inf, a weight of 0
            EXPECT_TRUE(std::isnan(r.out.at<float>(0, 0, i, 1))) << i;
            EXPECT_TRUE(std::isnan(g.q.at<float>(0, 0, i, 1))) << i;
          }
        }
        // A boolean mask that hides the key from everybody: nothing is left of the poison.
        const Tensor mask = Tensor::full({L}, 1, DType::boolean);
        mask.at<bool>(at) = false;
        const AttentionOptions hidden = options({.mask = mask, .want_lse = true});
        const AttentionResult h = attention(q, k, v, hidden);
        const AttentionGradients hg = attention_backward(grad, q, k, v, h, hidden);
        for (const Tensor& t : {h.out, h.lse, hg.q, hg.k, hg.v})
          for (const float x : t.span<float>()) EXPECT_TRUE(std::isfinite(x));
      }
    }
  }
}

TEST_P(Attention, NaNInAQueryReachesOnlyItsRow) {
  for (const int64_t L : {5, 140}) {
    const Tensor q = random_tensor({1, 1, L, 4}, 1), k = random_tensor({1, 1, L, 4}, 2),
                 v = random_tensor({1, 1, L, 4}, 3);
    const Tensor grad = random_tensor({1, 1, L, 4}, 4);
    q.at<double>(0, 0, 2, 0) = kNaN;
    const AttentionOptions o = options({.causal = Causal::top_left, .want_lse = true});
    const AttentionResult r = attention(q, k, v, o);
    const AttentionGradients g = attention_backward(grad, q, k, v, r, o);
    for (int64_t i = 0; i < L; ++i) {
      EXPECT_EQ(std::isnan(r.out.at<double>(0, 0, i, 0)), i == 2);
      EXPECT_EQ(std::isnan(r.lse.at<double>(0, 0, i)), i == 2);
      EXPECT_EQ(std::isnan(g.q.at<double>(0, 0, i, 0)), i == 2);
      EXPECT_EQ(std::isnan(g.k.at<double>(0, 0, i, 0)), i <= 2);  // keys that query 2 sees
      EXPECT_EQ(std::isnan(g.v.at<double>(0, 0, i, 0)), i <= 2);
    }
  }
}

TEST_P(Attention, HugeScoresStayFinite) {
  for (const double sign : {1.0, -1.0}) {
    const Tensor q = Tensor::full({1, 1, 80, 4}, 100), k = random_tensor({1, 1, 90, 4}, 2, DType::f32);
    for (float& x : k.span<float>()) x = static_cast<float>(sign * (50 + 0.01 * x));  // scores near +-1e4
    const Tensor v = random_tensor({1, 1, 90, 4}, 3, DType::f32);
    const AttentionOptions o = options({.want_lse = true, .want_weights = true});
    const AttentionResult r = attention(q, k, v, o);
    const AttentionGradients g = attention_backward(v.slice(2, 0, 80), q, k, v, r, o);
    for (const Tensor& t : {r.out, r.lse, r.weights, g.q, g.k, g.v})
      for (const float x : t.contiguous().span<float>()) EXPECT_TRUE(std::isfinite(x));
    EXPECT_NEAR(r.lse.at<float>(0, 0, 0), sign * 1e4, 10);
    for (int64_t i = 0; i < 80; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 90; ++j) sum += r.weights.at<float>(0, 0, i, j);
      EXPECT_NEAR(sum, 1, 1e-2);
    }
  }
}

TEST_P(Attention, PermutedPositionsGivePermutedOutputs) {
  const int64_t L = 100;
  const Tensor x = random_tensor({1, 2, L, 8}, 1), y = Tensor::empty(x.shape(), DType::f64);
  for (int64_t i = 0; i < L; ++i) y.slice(2, i, i + 1).copy_from(x.slice(2, i * 37 % L, i * 37 % L + 1));
  const Tensor a = attention(x, x, x, options()), b = attention(y, y, y, options());
  for (int64_t i = 0; i < L; ++i)
    EXPECT_LE(max_error(b.slice(2, i, i + 1), a.slice(2, i * 37 % L, i * 37 % L + 1)), 1e-14);  // rounding of 100 terms
}

INSTANTIATE_TEST_SUITE_P(Implementations, Attention,
                         ::testing::Values(Implementation::reference, Implementation::fused), [](const auto& test) {
                           return test.param == Implementation::reference ? "Reference" : "Fused";
                         });

TEST(AttentionAliasing, SlicesOfOnePackedTensorAreApart) {
  // (B, L, 4, H, D): q, k, v and out interleave row by row without sharing an element.
  const Tensor packed = random_tensor({2, 6, 4, 3, 5}, 1, DType::f32);
  const auto part = [&](int64_t n) { return packed.select(2, n).transpose(1, 2); };  // (B, H, L, D)
  const Tensor expected = attention(part(0).clone(), part(1).clone(), part(2).clone());
  AttentionResult into;
  into.out = part(3);
  attention(part(0), part(1), part(2), into, {});
  EXPECT_EQ(max_error(part(3), expected), 0);
}

}  // namespace
}  // namespace heed
