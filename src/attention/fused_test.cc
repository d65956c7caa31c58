// The fused kernels against the textbook, on every SIMD target that this machine can run.
#include "attention/fused.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <rapidcheck/gtest.h>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::Textbook;
using test::textbook;

/// One call with its inputs, in double.
struct Call {
  Tensor q, k, v, grad;
  AttentionOptions options;
  bool additive() const { return options.mask.defined() && options.mask.dtype() != DType::boolean; }
};

struct Outputs {
  AttentionResult result;
  AttentionGradients gradients;
};

/// The fused kernels on a call, in T; with `strided`, every tensor lies scattered in wider memory.
template <class T>
Outputs fused(const Call& call, bool strided = false) {
  const auto as = [&](const Tensor& t) {
    const Tensor converted = t.to(dtype_of<T>());
    return strided ? test::strided_copy(converted) : converted;
  };
  AttentionOptions o = call.options;
  if (call.additive()) o.mask = o.mask.to(dtype_of<T>());
  o.implementation = Implementation::fused;
  o.want_lse = o.want_weights = true;
  Outputs r;
  r.result = attention(as(call.q), as(call.k), as(call.v), o);
  r.gradients = attention_backward(as(call.grad), as(call.q), as(call.k), as(call.v), r.result, o, call.additive());
  return r;
}

struct Compared {
  const char* name;
  Tensor value, exact, plain;  // plain: the textbook with sums in float
};

std::vector<Compared> compared(const Call& call, const Outputs& r, const Textbook& exact, const Textbook& plain) {
  std::vector<Compared> list = {{"out", r.result.out, exact.out, plain.out},
                                {"lse", r.result.lse, exact.lse, plain.lse},
                                {"weights", r.result.weights, exact.weights, plain.weights},
                                {"dq", r.gradients.q, exact.dq, plain.dq},
                                {"dk", r.gradients.k, exact.dk, plain.dk},
                                {"dv", r.gradients.v, exact.dv, plain.dv}};
  if (call.additive()) list.push_back({"dmask", r.gradients.mask, exact.dmask, plain.dmask});
  return list;
}

void expect_exact(const Call& call, bool strided = false) {
  const Textbook exact = textbook<double>(call.q, call.k, call.v, call.options, call.grad);
  for (const Compared& c : compared(call, fused<double>(call, strided), exact, exact))
    EXPECT_LE(max_error(c.value, c.exact), 1e-13 * (10 + max_abs(c.exact))) << c.name;
}

/// error(fused in float) <= 2 error(textbook in float) + 4 eps max|exact|, both against double.
void expect_as_good_as_textbook(Call call) {
  const auto rounded = [](const Tensor& t) { return t.to(DType::f32).to(DType::f64); };
  call.q = rounded(call.q), call.k = rounded(call.k), call.v = rounded(call.v), call.grad = rounded(call.grad);
  if (call.additive()) call.options.mask = rounded(call.options.mask);
  const Textbook exact = textbook<double>(call.q, call.k, call.v, call.options, call.grad);
  const Textbook plain = textbook<float>(call.q, call.k, call.v, call.options, call.grad);
  constexpr double kEps = std::numeric_limits<float>::epsilon();
  for (const Compared& c : compared(call, fused<float>(call), exact, plain))
    EXPECT_LE(max_error(c.value, c.exact), 2 * max_error(c.plain, c.exact) + 4 * kEps * max_abs(c.exact)) << c.name;
}

Call make_call(uint64_t seed, int64_t B, int64_t Hkv, int64_t group, int64_t Lq, int64_t Lk, int64_t D, int64_t Dv,
               AttentionOptions options = {}) {
  return {random_tensor({B, Hkv * group, Lq, D}, seed), random_tensor({B, Hkv, Lk, D}, seed + 1),
          random_tensor({B, Hkv, Lk, Dv}, seed + 2), random_tensor({B, Hkv * group, Lq, Dv}, seed + 3), options};
}

Call arbitrary_call() {
  const auto in = [](int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); };
  const auto length = [&] { return in(0, 7) ? in(0, 70) : in(71, 300); };
  const auto width = [&] { return in(0, 3) ? in(1, 40) : in(41, 130); };
  const auto seed = static_cast<uint64_t>(in(0, 1 << 20));
  const int64_t B = in(1, 2), Hkv = in(1, 2), group = in(1, 3), Lq = length(), Lk = length();
  Call call = make_call(seed, B, Hkv, group, Lq, Lk, width(), width());
  AttentionOptions& o = call.options;
  o.causal = static_cast<Causal>(in(0, 2));
  if (in(0, 2) == 0) o.scale = 0.3;
  if (in(0, 2) == 0) {
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < B; ++b) lengths.push_back(static_cast<int32_t>(in(0, Lk)));
    o.key_lengths = Tensor::from(lengths, {B});
  }
  if (in(0, 3) == 0) {
    o.dropout = 0.25;
    o.seed = seed;
    o.stream = 5;
  }
  if (const int64_t kind = in(0, 3); kind > 1) {
    const Dims shape{in(0, 1) ? B : 1, in(0, 1) ? Hkv * group : 1, in(0, 1) ? Lq : 1, in(0, 1) ? Lk : 1};
    const Tensor values = random_tensor(shape, seed + 4);
    if (kind == 2) {
      o.mask = Tensor::zeros(shape, DType::boolean);
      for (int64_t i = 0; i < values.numel(); ++i) o.mask.data<bool>()[i] = values.data<double>()[i] > -0.7;
    } else {
      for (double& x : values.span<double>())
        if (x < -1.2) x = -INFINITY;
      o.mask = values;
    }
  }
  return call;
}

/// Runs the test body once for every target that is compiled in and that this machine runs.
class FusedOnTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(FusedOnTarget, IsTheTargetThatRuns) { EXPECT_STREQ(fused_target(), hwy::TargetName(GetParam())); }

TEST_P(FusedOnTarget, EveryRemainder) {
  // Rows, columns and depths around the kernels' 6 rows, 1 to 4 vectors and tiles of 64.
  for (const int64_t Lq : {1, 5, 6, 7, 15, 17, 33, 49, 63, 64, 65, 131})
    expect_exact(make_call(1, 1, 1, 1, Lq, 13, 8, 8, {.causal = Causal::top_left}));
  for (const int64_t Lk : {1, 5, 6, 7, 63, 64, 65, 129})
    expect_exact(make_call(2, 1, 1, 1, 10, Lk, 8, 8, {.causal = Causal::bottom_right}));
  for (const int64_t D : {1, 2, 3, 15, 16, 17, 31, 47, 48, 63, 65, 79, 113})
    expect_exact(make_call(3, 1, 1, 1, 7, 9, D, 114 - D, {.dropout = 0.2}));
}

TEST_P(FusedOnTarget, LongAndManyChunks) {
  expect_exact(make_call(4, 1, 1, 2, 200, 1100, 5, 6, {.causal = Causal::bottom_right}));
  expect_exact(make_call(5, 1, 1, 1, 70, 1030, 4, 4, {.mask = random_tensor({70, 1030}, 6), .dropout = 0.5}), true);
}

TEST_P(FusedOnTarget, AsAccurateInFloatAsTheTextbook) {
  for (const Causal causal : {Causal::none, Causal::top_left}) {
    expect_as_good_as_textbook(make_call(7, 2, 2, 2, 12, 12, 64, 64, {.causal = causal}));
    expect_as_good_as_textbook(make_call(8, 1, 2, 1, 130, 200, 64, 48, {.causal = causal}));
    expect_as_good_as_textbook(make_call(9, 1, 1, 1, 100, 100, 128, 128, {.causal = causal, .scale = 1.0}));
    expect_as_good_as_textbook(
        make_call(10, 1, 2, 1, 90, 90, 33, 17, {.causal = causal, .mask = random_tensor({90, 90}, 11)}));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FusedOnTarget, ::testing::ValuesIn(fused_targets()),
                         [](const auto& test) { return hwy::TargetName(test.param); });

RC_GTEST_PROP(Fused, EqualsTheTextbookInDouble, ()) {
  const Call call = arbitrary_call();
  const Textbook exact = textbook<double>(call.q, call.k, call.v, call.options, call.grad);
  for (const Compared& c : compared(call, fused<double>(call, *rc::gen::arbitrary<bool>()), exact, exact))
    RC_ASSERT(max_error(c.value, c.exact) <= 1e-13 * (10 + max_abs(c.exact)));
}

RC_GTEST_PROP(Fused, IsCloseInFloat, ()) {
  const Call call = arbitrary_call();
  const Textbook exact = textbook<double>(call.q, call.k, call.v, call.options, call.grad);
  for (const Compared& c : compared(call, fused<float>(call, *rc::gen::arbitrary<bool>()), exact, exact))
    RC_ASSERT(max_error(c.value, c.exact) <= 2e-4 * (1 + max_abs(c.exact)));
}

TEST(Fused, GradientsEqualFiniteDifferences) {
  const Tensor mask = random_tensor({2, 1, 7, 11}, 50);
  mask.at<double>(1, 0, 3, 4) = -INFINITY;
  Call call = make_call(51, 2, 2, 2, 7, 11, 5, 6,
                        {.causal = Causal::bottom_right,
                         .mask = mask,
                         .key_lengths = Tensor::from<int32_t>({11, 8}, {2}),
                         .dropout = 0.2,
                         .seed = 9});
  const Outputs r = fused<double>(call);
  const auto loss = [&] {
    const Tensor out = attention(call.q, call.k, call.v, call.options).out;
    double sum = 0;
    for (int64_t i = 0; i < out.numel(); ++i) sum += out.data<double>()[i] * call.grad.data<double>()[i];
    return sum;
  };
  const std::pair<Tensor, Tensor> checked[] = {
      {call.q, r.gradients.q}, {call.k, r.gradients.k}, {call.v, r.gradients.v}, {mask, r.gradients.mask}};
  for (const auto& [x, gradient] : checked) {
    const double scale = max_abs(gradient);
    ASSERT_GT(scale, 0);
    for (int64_t i = 0; i < x.numel(); ++i) {
      double& value = x.data<double>()[i];
      const double saved = value, step = 1e-5;
      if (!std::isfinite(saved)) continue;
      value = saved + step;
      const double up = loss();
      value = saved - step;
      const double down = loss();
      value = saved;
      EXPECT_NEAR(gradient.data<double>()[i], (up - down) / (2 * step), 1e-6 * scale);
    }
  }
}

}  // namespace
}  // namespace heed
