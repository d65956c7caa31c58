// Rows whose scores or masks are large: results, weights and gradients of the operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "attention/fused.h"
#include "attention/large_scores.h"
#include "heed/kv_cache.h"
#include "simd/targets.h"

namespace heed {
namespace {

using test::bound;
using test::expect_near;
using test::Formula;
using test::kInf;
using test::max_error;
using test::random_tensor;
using Example = test::LargeScoresExample;

template <class T>
void expect_lse(const AttentionResult& r, const Formula<T>& exact, const std::string& what) {
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (int64_t h = 0; h < r.lse.size(1); ++h)
    for (int64_t i = 0; i < r.lse.size(2); ++i) {
      const double lse = static_cast<double>(r.lse.at<T>(0, h, i)), want = exact.lse.template at<double>(0, h, i);
      if (want == -kInf) {
        EXPECT_EQ(lse, want) << what;
        EXPECT_EQ(r.lse_low.at<T>(0, h, i), 0) << what;
        continue;
      }
      EXPECT_LE(std::fabs(lse - want), 8 * epsilon * (1 + std::fabs(want))) << what << " row " << i;
      const double top = exact.top.template at<double>(0, h, i);
      if (epsilon * std::fabs(top) < 64) continue;  // else lse is the largest score
      EXPECT_EQ(lse, top) << what << " row " << i;
      EXPECT_NEAR(static_cast<double>(r.lse_low.at<T>(0, h, i)), exact.log.template at<double>(0, h, i), 16 * epsilon)
          << what << " row " << i;
    }
}

template <class T>
void expect_formula(const Example& e, Implementation implementation, const std::string& what) {
  const DType compute = dtype_of<T>(), kept = e.q.dtype();  // backward begins with the rounded out
  const Formula<T> exact(e);
  AttentionOptions o = e.options();
  o.implementation = implementation;
  const AttentionResult r = attention(e.q, e.k, e.v, o);
  expect_near("out", r.out, exact.out, kept, what);
  expect_near("weights", r.weights, exact.weights, compute, what);
  expect_lse(r, exact, what);
  // With what forward saved, and with its lse alone, as torch's own kernels keep it.
  for (const bool whole : {true, false}) {
    AttentionResult saved;
    saved.out = r.out, saved.lse = r.lse;
    if (whole) saved.lse_low = r.lse_low;
    const AttentionGradients g =
        attention_backward(e.grad, e.q, e.k, e.v, saved, o,
                           {.want_mask = true, .want_sinks = e.sinks.has_value(), .grad_lse = e.grad_lse});
    const std::string how = what + (whole ? "" : ", of lse alone");
    expect_near("dq", g.q, exact.dq, kept, how);
    expect_near("dk", g.k, exact.dk, kept, how);
    expect_near("dv", g.v, exact.dv, kept, how);
    expect_near("dmask", g.mask, exact.dmask, kept, how);
    if (e.sinks) expect_near("dsinks", g.sinks, exact.dsinks, kept, how);
  }
}

template <class T>
void expect_every_implementation(const Example& e, const std::string& what) {
  expect_formula<T>(e, Implementation::fused, what + ", fused");
  expect_formula<T>(e, Implementation::decode, what + ", decode");
  expect_formula<T>(e, Implementation::reference, what + ", reference");
}

template <class T>
void expect_all_rows(DType storage) {
  const std::string kept = name_of(storage);
  for (const int64_t Lk : {1, 5, 70}) {
    const Example e = test::large_scores_example<T>(Lk, storage, 1 + static_cast<uint64_t>(Lk));
    expect_every_implementation<T>(e, kept + ", " + std::to_string(Lk) + " keys");
    for (int64_t i = 0; i < e.q.size(2); i += 7)  // as few queries are computed
      expect_every_implementation<T>(e.rows(i, std::min(i + 7, e.q.size(2))),
                                     kept + ", " + std::to_string(Lk) + " keys, rows from " + std::to_string(i));
  }
}

/// Runs the test body once for every target that is compiled in and that this machine runs.
class LargeScores : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { set_targets_for_test(GetParam()); }
  void TearDown() override { set_targets_for_test(0); }
};

TEST_P(LargeScores, MasksOfAnyFiniteNumber) {
  expect_all_rows<float>(DType::f32);
  expect_all_rows<double>(DType::f64);
  expect_all_rows<float>(DType::bf16);
  expect_all_rows<float>(DType::f16);
}

TEST_P(LargeScores, SinksBesideLargeMasks) {
  for (const double sink : {0.5, -1e9, 1e9, -1e20, -kInf}) {
    Example e = test::large_scores_example<float>(70, DType::f32, 3);
    e.sinks = Tensor::full({2}, sink, DType::f32);
    expect_every_implementation<float>(e, "sink " + std::to_string(sink));
    Example d = test::large_scores_example<double>(70, DType::f64, 3);
    d.sinks = Tensor::full({2}, sink, DType::f64);
    expect_every_implementation<double>(d, "sink " + std::to_string(sink));
  }
}

template <class T>
void expect_parts_join() {
  const DType dtype = dtype_of<T>();
  const Example e = test::large_scores_example<T>(150, dtype, 5);
  const Formula<T> exact(e);
  for (const auto implementation : {Implementation::automatic, Implementation::decode, Implementation::reference}) {
    const std::string what = std::string(name_of(dtype)) + " by " + std::to_string(static_cast<int>(implementation));
    AttentionResult all;
    const std::array<std::pair<int64_t, int64_t>, 3> pieces{{{0, 64}, {64, 67}, {67, 150}}};
    const auto options = [&](int64_t begin, const Example& part) {
      AttentionOptions o = part.options();
      o.want_weights = false;
      o.part.first_key = begin;
      o.implementation = implementation;
      return o;
    };
    for (const auto& [begin, end] : pieces) {
      const Example part = e.keys(begin, end);
      const AttentionResult r = attention(part.q, part.k, part.v, options(begin, part));
      all = all.out.defined() ? merge(all, r) : r;
    }
    expect_near("out", all.out, exact.out, dtype, what);
    expect_lse(all, exact, what);
    const Tensor dq = Tensor::zeros(e.q.shape(), DType::f64);
    for (const auto& [begin, end] : pieces) {
      const Example part = e.keys(begin, end);
      const AttentionGradients g = attention_backward(e.grad, e.q, part.k, part.v, all, options(begin, part),
                                                      {.want_mask = true, .grad_lse = e.grad_lse});
      expect_near("dk", g.k, exact.dk.slice(2, begin, end), dtype, what);
      expect_near("dv", g.v, exact.dv.slice(2, begin, end), dtype, what);
      expect_near("dmask", g.mask, exact.dmask.slice(1, begin, end), dtype, what);
      const Tensor of_part = g.q.to(DType::f64);
      for (int64_t n = 0; n < dq.numel(); ++n) dq.data<double>()[n] += of_part.data<double>()[n];
    }
    EXPECT_LE(max_error(dq, exact.dq), bound(exact.dq, test::epsilon(dtype))) << what;
  }
}

TEST_P(LargeScores, PartsOfTheKeysJoin) {
  expect_parts_join<float>();
  expect_parts_join<double>();
}

/// Equal keys share the weight, whatever their score is, and though no order of summing gives the same one.
template <class T>
void expect_equal_shares(int64_t Lq, int64_t Lk, Implementation implementation) {
  const DType dtype = dtype_of<T>();
  const int64_t D = 64;
  for (const double size : {1e1, -1e3, 1e4, -1e5, 1e6, -1e7, 1e8, 1e9, -1e9, -1e10, 1e15, -1e18}) {
    const auto of_one_sign = [&](const Dims& shape, uint64_t seed, double sign) {  // nothing of a score cancels
      const Tensor t = random_tensor(shape, seed, DType::f64, std::sqrt(std::fabs(size)));
      for (double& x : t.span<double>()) x = std::copysign(x, sign);
      return t.to(dtype);
    };
    const Tensor q = of_one_sign({1, 1, Lq, D}, 11, size);
    const Tensor k = of_one_sign({1, 1, 1, D}, 12, 1).expand({1, 1, Lk, D}).contiguous();
    const Tensor v = random_tensor({1, 1, Lk, 3}, 13, dtype), grad = Tensor::full({1, 1, Lq, 3}, 1, dtype);
    const AttentionOptions o{.want_lse = true, .want_weights = true, .implementation = implementation};
    const AttentionResult r = attention(q, k, v, o);
    const AttentionGradients g = attention_backward(grad, q, k, v, r, o);
    AttentionResult lse_alone;
    lse_alone.out = r.out, lse_alone.lse = r.lse;
    const AttentionGradients again = attention_backward(grad, q, k, v, lse_alone, o);
    const double share = 1 / static_cast<double>(Lk);
    const double near = (dtype == DType::f64 ? 128 : 64) * test::epsilon(dtype);
    const std::string what = std::to_string(size) + ", " + std::to_string(Lq) + " queries, " + std::to_string(Lk) +
                             " keys, " + name_of(dtype) + ", by " + std::to_string(static_cast<int>(implementation));
    EXPECT_LE(max_error(r.weights, Tensor::full(r.weights.shape(), share, DType::f64)), near * share) << what;
    const Tensor dv = Tensor::full(g.v.shape(), share * static_cast<double>(Lq), DType::f64);
    EXPECT_LE(max_error(g.v, dv), near * share * static_cast<double>(Lq)) << what;
    EXPECT_LE(max_error(again.v, dv), near * share * static_cast<double>(Lq)) << what;
    for (const Tensor& t : {g.q, g.k, again.q, again.k})
      for (const double x : t.to(DType::f64).span<double>()) EXPECT_TRUE(std::isfinite(x)) << what;
  }
}

TEST_P(LargeScores, EqualKeysShareTheWeight) {
  for (const auto implementation :
       {Implementation::automatic, Implementation::fused, Implementation::decode, Implementation::reference})
    for (const int64_t Lq : {1, 3, 40})
      for (const int64_t Lk : {3, 600}) {
        expect_equal_shares<float>(Lq, Lk, implementation);
        expect_equal_shares<double>(Lq, Lk, implementation);
      }
}

TEST_P(LargeScores, ScoresApartByOneKeepTheirRatio) {
  // 2^23 - 1 and 2^23 are numbers of float32; so are their products with 1.
  const Tensor q = Tensor::full({1, 1, 20, 1}, 1), v = Tensor::from<float>({1, 0}, {1, 1, 2, 1});
  for (const float top : {8388608.0f, -8388608.0f, 1000.0f}) {
    const Tensor k = Tensor::from<float>({top, top - 1}, {1, 1, 2, 1});
    const AttentionOptions o{.scale = 1, .want_lse = true, .want_weights = true};
    const AttentionResult r = attention(q, k, v, o);
    const double w = 1 / (1 + std::exp(-1.0));
    EXPECT_NEAR(static_cast<double>(r.out.at<float>(0, 0, 7, 0)), w, 4e-7) << top;
    EXPECT_NEAR(static_cast<double>(r.weights.at<float>(0, 0, 7, 0)), w, 4e-7) << top;
    const AttentionGradients g = attention_backward(Tensor::full({1, 1, 20, 1}, 1), q, k, v, r, o);
    EXPECT_NEAR(static_cast<double>(g.v.at<float>(0, 0, 0, 0)), 20 * w, 1e-5) << top;
    EXPECT_NEAR(static_cast<double>(g.v.at<float>(0, 0, 1, 0)), 20 * (1 - w), 1e-5) << top;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LargeScores, ::testing::ValuesIn(fused_targets()),
                         [](const auto& test) { return hwy::TargetName(test.param); });

TEST(LargeMasks, BroadcastOverQueriesAndKeys) {
  // Left padding: a mask of one row for all queries, and one of one key for all keys.
  for (const float hidden : {-1e9f, -1e20f, 3e38f, std::numeric_limits<float>::lowest()}) {
    Example e = test::large_scores_example<float>(6, DType::f32, 7).rows(0, 30);
    e.mask = Tensor::full({30, 6}, hidden);
    const Formula<float> exact(e);
    for (const Dims& shape : {Dims{6}, {1, 6}, {30, 1}, {1, 1, 30, 6}, {2, 1, 1}}) {
      AttentionOptions o = e.options();
      o.mask = Tensor::full(shape, hidden);
      const AttentionResult r = attention(e.q, e.k, e.v, o);
      expect_near("weights", r.weights, exact.weights, DType::f32, to_string(shape));
      const AttentionGradients g =
          attention_backward(e.grad, e.q, e.k, e.v, r, o, {.want_mask = true, .grad_lse = e.grad_lse});
      expect_near("dv", g.v, exact.dv, DType::f32, to_string(shape));
      expect_near("dk", g.k, exact.dk, DType::f32, to_string(shape));
      EXPECT_TRUE(std::isfinite(test::max_abs(g.mask))) << to_string(shape);
    }
  }
}

TEST(LargeMasks, WeightsOfACache) {
  const Tensor x = random_tensor({1, 1, 5, 8}, 1, DType::f32);
  for (const float hidden : {-1e9f, -1e20f, -1e30f}) {
    KVCache cache(1, 1, 5, 8, 8);
    AttentionOptions o{.mask = Tensor::full({5}, hidden), .want_weights = true};
    const AttentionResult r = cache.attend(x, x, x, o);
    EXPECT_LE(max_error(r.weights, Tensor::full({1, 1, 5, 5}, 0.2)), 1e-6);
  }
}

TEST(LargeMasks, APartOfTheKeysNeedsBothHalvesOfLse) {
  const Example e = test::large_scores_example<float>(6, DType::f32, 7).rows(0, 30);
  AttentionOptions o = e.options();
  o.part.first_key = 3;
  AttentionResult r = attention(e.q, e.k, e.v, o);
  attention_backward(e.grad, e.q, e.k, e.v, r, o);
  r.lse_low = {};
  EXPECT_NE(test::refusal([&] {
              attention_backward(e.grad, e.q, e.k, e.v, r, o);
            }).find("attention_backward: forward has a lse of"),
            std::string::npos);
}

}  // namespace
}  // namespace heed
