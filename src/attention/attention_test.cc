// The public call: options, edges, hidden NaN, errors; by every implementation.
#include "heed/attention.h"

#include <gtest/gtest.h>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::Textbook;
using test::textbook;

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
    o = options(o);
    o.want_lse = o.want_weights = true;
    const Tensor grad = random_tensor({q.size(0), q.size(1), q.size(2), v.size(3)}, 99);
    const bool want_mask = o.mask.defined() && o.mask.dtype() != DType::boolean;
    const Textbook expected = textbook<double>(q, k, v, o, grad);
    const AttentionResult result = attention(q, k, v, o);
    EXPECT_LE(max_error(result.out, expected.out), tolerance);
    EXPECT_LE(max_error(result.lse, expected.lse), tolerance);
    EXPECT_LE(max_error(result.weights, expected.weights), tolerance);
    const AttentionGradients gradients = attention_backward(grad, q, k, v, result, o, want_mask);
    EXPECT_LE(max_error(gradients.q, expected.dq), tolerance);
    EXPECT_LE(max_error(gradients.k, expected.dk), tolerance);
    EXPECT_LE(max_error(gradients.v, expected.dv), tolerance);
    if (want_mask) {
      EXPECT_LE(max_error(gradients.mask, expected.dmask), tolerance * 10);
    }
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
  AttentionResult b{test::strided_copy(Tensor::zeros(a.out.shape())), Tensor::zeros(a.lse.shape()), {}};
  attention(test::strided_copy(q), test::strided_copy(k), test::strided_copy(v), b, o);
  EXPECT_EQ(max_error(a.out, b.out), 0);
  EXPECT_EQ(max_error(a.lse, b.lse), 0);
  const AttentionGradients ga = attention_backward(grad, q, k, v, a, o);
  const AttentionGradients gb{test::strided_copy(Tensor::zeros(q.shape())),
                              test::strided_copy(Tensor::zeros(k.shape())),
                              test::strided_copy(Tensor::zeros(v.shape())),
                              {}};
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

/// The message of the ShapeError that f throws.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

TEST(AttentionErrors, SayRuleValuesAndRemedy) {
  const auto zeros = [](const Dims& s, DType t = DType::f32) { return Tensor::zeros(s, t); };
  const Tensor q = zeros({2, 12, 3, 4}), k = zeros({2, 12, 5, 4}), v = zeros({2, 12, 5, 6});
  const auto said = [&](const Tensor& a, const Tensor& b, const Tensor& c, const AttentionOptions& o = {}) {
    return refusal([&] { attention(a, b, c, o); });
  };
  EXPECT_EQ(said(q, zeros({2, 5, 5, 4}), zeros({2, 5, 5, 4})),
            "attention: 12 query heads are not a multiple of 5 key heads; pass k and v with 1, 2, 3, 4, 6 or 12 heads");
  EXPECT_EQ(said({}, k, v), "attention: q is undefined; pass a tensor (B, Hq, Lq, D)");
  EXPECT_EQ(
      said(q.select(0, 0), k, v),
      "attention: q has shape (12, 3, 4), not the four dimensions (B, Hq, Lq, D); add the missing ones with reshape");
  EXPECT_EQ(said(q, zeros({2, 12, 5, 4}, DType::f64), v), "attention: k is f64 and q is f32; convert one with to()");
  EXPECT_EQ(said(zeros({2, 12, 3, 4}, DType::i32), k, v),
            "attention: q is i32; attention computes in f32 and f64, convert with to()");
  EXPECT_EQ(said(q, zeros({3, 12, 5, 4}), v),
            "attention: batches of q, k and v are 2, 3 and 2; make them equal, with expand() where one is shared");
  EXPECT_EQ(said(q, zeros({2, 12, 5, 3}), v),
            "attention: the head size of q is 4 and of k 3; they are multiplied, make them equal");
  EXPECT_EQ(said(q, k, zeros({2, 6, 5, 6})), "attention: k has 12 heads and v 6; make them equal");
  EXPECT_EQ(said(q, k, zeros({2, 12, 4, 6})), "attention: k has 5 positions and v 4; each key needs its value");
  EXPECT_EQ(said(zeros({2, 12, 3, 0}), zeros({2, 12, 5, 0}), v),
            "attention: the head size of q and k is 0; pass at least 1");
  EXPECT_EQ(said(q, k.transpose(2, 3), v),
            "attention: the innermost stride of k is 4, which must be 1; call contiguous() first");
  EXPECT_EQ(said(q, k, v, {.mask = zeros({2, 1, 4, 5})}),
            "attention: a mask of shape (2, 1, 4, 5) does not broadcast to (B, Hq, Lq, Lk) = (2, 12, 3, 5); each "
            "dimension, from the right, must be 1 or that size");
  EXPECT_EQ(said(q, k, v, {.mask = zeros({3, 5}, DType::f64)}),
            "attention: the mask is f64; pass bool (true = may be attended) or f32 like q (added to the score)");
  EXPECT_EQ(said(q, k, v, {.key_lengths = Tensor::from<int32_t>({1, 6}, {2})}),
            "attention: key_lengths[1] is 6; pass 0 to Lk = 5");
  EXPECT_EQ(said(q, k, v, {.key_lengths = Tensor::from<int32_t>({1}, {1})}),
            "attention: key_lengths have shape (1); pass one length an entry, (2)");
  EXPECT_EQ(said(q, k, v, {.dropout = 1}), "attention: dropout is 1; pass a probability in [0, 1)");
  EXPECT_EQ(said(q, k, v, {.scale = kNaN}), "attention: scale is nan; pass a finite factor, or none for 1/sqrt(D)");
}

TEST(AttentionErrors, OutputsAndGradients) {
  const Tensor x = Tensor::zeros({2, 3, 4, 4});
  const auto said = [&](const AttentionResult& into) { return refusal([&] { attention(x, x, x, into, {}); }); };
  EXPECT_EQ(said({}), "attention: into.out is undefined; pass a tensor (B, Hq, Lq, Dv)");
  EXPECT_EQ(said({Tensor::zeros({2, 3, 4, 5}), {}, {}}),
            "attention: into.out has shape (2, 3, 4, 5); pass (B, Hq, Lq, Dv) = (2, 3, 4, 4)");
  EXPECT_EQ(said({x, {}, {}}), "attention: into.out shares memory with q, which is read; pass memory of its own");
  EXPECT_EQ(said({Tensor::zeros({1, 3, 4, 4}).expand({2, 3, 4, 4}), {}, {}}),
            "attention: into.out is broadcast along dimension 0 and cannot be written to; pass memory of its own");
  EXPECT_EQ(said({Tensor::zeros({2, 3, 4, 4}), Tensor::zeros({2, 3, 5}), {}}),
            "attention: into.lse has shape (2, 3, 5); pass (B, Hq, Lq) = (2, 3, 4)");
  EXPECT_EQ(said({Tensor::zeros({2, 3, 4, 4}), Tensor::zeros({2, 4, 3}).transpose(1, 2), {}}),
            "attention: into.lse is strided; call contiguous() first");

  const auto back = [&](const AttentionResult& saved, bool want_mask = false) {
    return refusal([&] { attention_backward(x, x, x, x, saved, {}, want_mask); });
  };
  EXPECT_EQ(back(attention(x, x, x)),
            "attention_backward: forward.lse is undefined; pass the result of attention() called with want_lse");
  const AttentionResult saved = attention(x, x, x, {.want_lse = true});
  EXPECT_EQ(back(saved, true),
            "attention_backward: the gradient of the mask is wanted, but the mask is absent; only an additive mask has "
            "one");
  const Tensor g = Tensor::zeros({2, 3, 4, 4});
  EXPECT_EQ(refusal([&] {
              attention_backward(x, x, x, x, saved, {g, g, Tensor::zeros({2, 3, 4, 4}), {}}, {});
            }),
            "attention_backward: into.k shares memory with into.q; pass memory of its own");
  EXPECT_EQ(refusal([&] {
              attention_backward(x, x.clone(), x, x, saved, {saved.out, g, g.clone(), {}}, {});
            }),
            "attention_backward: into.q shares memory with forward.out, which is read; pass memory of its own");
}

TEST(AttentionErrors, SlicesOfOnePackedTensorAreApart) {
  // (B, L, 4, H, D): q, k, v and out interleave row by row without sharing an element.
  const Tensor packed = random_tensor({2, 6, 4, 3, 5}, 1, DType::f32);
  const auto part = [&](int64_t n) { return packed.select(2, n).transpose(1, 2); };  // (B, H, L, D)
  const Tensor expected = attention(part(0).clone(), part(1).clone(), part(2).clone());
  attention(part(0), part(1), part(2), {part(3), {}, {}}, {});
  EXPECT_EQ(max_error(part(3), expected), 0);
}

}  // namespace
}  // namespace heed
