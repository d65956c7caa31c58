// The fused kernels against the textbook, on every SIMD target that this machine can run.
#include "attention/fused.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "attention/testing.h"
#include "simd/targets.h"

namespace heed {
namespace {

using test::Call;
using test::max_abs;
using test::max_error;
using test::Outputs;
using test::random_tensor;
using test::same_bits;
using test::Textbook;

Outputs fused(Call call, const test::Kept& kept, bool strided = false) {
  call.options.implementation = Implementation::fused;
  return test::run(test::converted(call, kept, strided));
}

void expect_exact(const Call& call, bool strided = false) {
  const Textbook exact = call.book<double>();
  for (const test::Accuracy& a : accuracies(fused(call, DType::f64, strided), exact, exact))
    EXPECT_LE(a.error(), 1e-13 * (10 + max_abs(a.exact))) << a.name;
}

void expect_as_good_as_textbook(const Call& unrounded) {
  const Call call = test::rounded(unrounded, DType::f32);
  for (const test::Accuracy& a : accuracies(fused(call, DType::f32), call.book<double>(), call.book<float>()))
    EXPECT_LE(a.error(), a.allowed(test::epsilon(DType::f32))) << a.name;
}

/// Results are rounded once, and gradients start from the rounded output.
void expect_close_in_half(const Call& unrounded, DType storage) {
  const Call call = test::rounded(unrounded, storage);
  const Textbook exact = call.book<double>();
  for (const test::Accuracy& a : accuracies(fused(call, storage), exact, exact))
    EXPECT_LE(a.error(), 4 * test::epsilon(storage) * (1 + max_abs(a.exact))) << a.name;
}

Call make_call(uint64_t seed, int64_t B, int64_t Hkv, int64_t group, int64_t Lq, int64_t Lk, int64_t D, int64_t Dv,
               AttentionOptions options = {}) {
  Call call;
  call.q = random_tensor({B, Hkv * group, Lq, D}, seed);
  call.k = random_tensor({B, Hkv, Lk, D}, seed + 1);
  call.v = random_tensor({B, Hkv, Lk, Dv}, seed + 2);
  call.grad = random_tensor({B, Hkv * group, Lq, Dv}, seed + 3);
  call.grad_lse = random_tensor({B, Hkv * group, Lq}, seed + 4);
  call.options = options;
  return call;
}

/// A ragged batch of three entries, the second without keys.
Call ragged_call(uint64_t seed, AttentionOptions options = {}) {
  Call call;
  call.q = random_tensor({100, 4, 20}, seed);
  call.k = random_tensor({170, 2, 20}, seed + 1);
  call.v = random_tensor({170, 2, 9}, seed + 2);
  call.grad = random_tensor({100, 4, 9}, seed + 3);
  options.q_offsets = Tensor::from<int32_t>({0, 70, 73, 100}, {4});
  options.k_offsets = Tensor::from<int64_t>({0, 130, 130, 170}, {4});
  call.options = options;
  return call;
}

ScoreMod squares() {
  return score_mod([](auto score, ScoreAt at) {
    return score * score * (0.1f * static_cast<float>(at.head + 1)) + 0.01f * static_cast<float>(at.key - at.query);
  });
}

/// Every option, most of them together with others.
std::vector<AttentionOptions> option_sets(int64_t Hq, int64_t Lq, int64_t Lk) {
  const Tensor slopes = random_tensor({Hq}, 20, DType::f64, 0.1), sinks = random_tensor({Hq}, 21);
  const Tensor bias = random_tensor({Lq, Lk}, 22), short_mask = Tensor::full({1, Hq, 1, Lk - 3}, 1, DType::boolean);
  for (int64_t h = 0; h < Hq; ++h) short_mask.at<bool>(0, h, 0, h) = false;
  const BlockMask blocks =
      block_mask([](ScoreAt at) { return at.key / 64 != at.query / 64 || at.key % 3 == 0; }, 1, 1, Lq, Lk);
  return {{.causal = Causal::top_left, .offset = 9, .window = {20, -1}},
          {.window = {70, 5}, .softcap = 1.5, .alibi = slopes},
          {.causal = Causal::bottom_right, .score_mod = squares(), .sinks = sinks},
          {.offset = 3, .softcap = 2, .score_mod = squares(), .mask = bias, .alibi = slopes, .sinks = sinks},
          {.mask = short_mask, .block_mask = blocks, .dropout = 0.2, .seed = 4},
          {.causal = Causal::top_left, .block_mask = blocks, .alibi = slopes, .sinks = sinks}};
}

/// Runs the test body once for every target that is compiled in and that this machine runs.
class FusedOnTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { set_targets_for_test(GetParam()); }
  void TearDown() override { set_targets_for_test(0); }
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

TEST_P(FusedOnTarget, EveryOption) {
  for (const AttentionOptions& o : option_sets(4, 70, 140)) {
    expect_exact(make_call(12, 1, 2, 2, 70, 140, 20, 9, o));
    expect_as_good_as_textbook(make_call(13, 1, 2, 2, 70, 140, 33, 40, o));
  }
}

TEST_P(FusedOnTarget, RaggedBatches) {
  for (const AttentionOptions& o : {AttentionOptions{},
                                    {.causal = Causal::bottom_right, .softcap = 2.0},
                                    {.causal = Causal::top_left, .window = {30, 0}, .dropout = 0.3}}) {
    expect_exact(ragged_call(14, o));
    expect_exact(ragged_call(15, o), true);
  }
}

TEST_P(FusedOnTarget, HalfStorage) {
  for (const DType storage : {DType::f16, DType::bf16}) {
    expect_close_in_half(make_call(16, 1, 2, 2, 70, 140, 33, 40, {.causal = Causal::bottom_right}), storage);
    expect_close_in_half(make_call(17, 1, 1, 1, 5, 6, 64, 64), storage);
  }
}

TEST_P(FusedOnTarget, HalfKeysBesideFloatQueries) {
  for (const DType half : {DType::f16, DType::bf16}) {
    const test::Kept kept(DType::f32, half, DType::f32);
    for (const auto& [heads, Lq, Lk] : {std::array<int64_t, 3>{1, 5, 65}, {1, 300, 300}, {40, 70, 600}}) {
      const Call call = test::rounded(make_call(31, 1, heads, 2, Lq, Lk, 33, 40), kept);
      const Outputs r = fused(call, kept);
      EXPECT_EQ(r.gradients.q.dtype(), DType::f32);
      EXPECT_EQ(r.gradients.k.dtype(), half);
      EXPECT_EQ(r.gradients.v.dtype(), half);
      for (const test::Accuracy& a : accuracies(r, call.book<double>(), call.book<float>())) {
        const double own = a.value.dtype() == half ? test::epsilon(half) * max_abs(a.exact) : 0;
        EXPECT_LE(a.error(), a.allowed(test::epsilon(DType::f32)) + own) << a.name << ' ' << Lq << ' ' << Lk;
      }
    }
  }
}

TEST_P(FusedOnTarget, DecodeEqualsTheTextbook) {
  for (const int64_t Lk : {1, 63, 700, 3000}) {
    for (const bool options : {false, true}) {
      Call call = make_call(18, 2, 2, 4, 1, Lk, 40, 24);
      if (options) {
        call.options = {
            .causal = Causal::bottom_right, .window = {600, -1}, .softcap = 2.0, .sinks = random_tensor({8}, 19)};
        call.options.key_lengths = Tensor::from<int64_t>({Lk, Lk / 3}, {2});
      }
      call.options.implementation = Implementation::decode;
      call.options.want_lse = true;
      const Textbook exact = call.book<double>();
      const AttentionResult r = attention(call.q, call.k, call.v, call.options);
      EXPECT_LE(max_error(r.out, exact.out), 1e-13 * (10 + max_abs(exact.out)));
      EXPECT_LE(max_error(r.lse, exact.lse), 1e-13 * (10 + max_abs(exact.lse)));
      for (const DType storage : {DType::f32, DType::f16, DType::bf16}) {
        const Call half = test::converted(call, storage);
        const Textbook e = test::rounded(call, storage).book<double>();
        EXPECT_LE(max_error(attention(half.q, half.k, half.v, half.options).out, e.out),
                  (storage == DType::f32 ? 8 : 1) * test::epsilon(storage) * (1 + max_abs(e.out)));
      }
    }
  }
}

TEST_P(FusedOnTarget, SelectedWeightsAndStagesOfScores) {
  for (AttentionOptions o : option_sets(4, 70, 140)) {
    const Call call = make_call(24, 1, 2, 2, 70, 140, 20, 9, o);
    o.implementation = Implementation::fused;
    for (int stage = 0; stage < 4; ++stage) {
      o.want_scores = static_cast<ScoreStage>(stage);
      Call staged = call;
      staged.options = o;
      const Tensor exact = staged.book<double>().scores;
      EXPECT_LE(max_error(attention(call.q, call.k, call.v, o).scores, exact), 1e-13 * (10 + max_abs(exact))) << stage;
    }
    o.want_scores.reset();
    o.want_weights = true;
    const Tensor all = call.book<double>().weights;
    o.selection = {Tensor::from<int64_t>({3, 0}, {2}), Tensor::from<int64_t>({69, 64, 1}, {3})};
    const Tensor some = attention(call.q, call.k, call.v, o).weights;
    ASSERT_TRUE(some.shape() == Dims({1, 2, 3, 140}));
    const int64_t heads[] = {3, 0}, rows[] = {69, 64, 1};
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t j = 0; j < 140; ++j)
          EXPECT_NEAR(some.at<double>(0, n, r, j), all.at<double>(0, heads[n], rows[r], j), 1e-13);
    o.selection.top_p = 0.7;
    const TopWeights top = attention(call.q, call.k, call.v, o).top;
    const auto* ends = top.offsets.data<int64_t>();
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t r = 0; r < 3; ++r, ++ends) {
        double sum = 0, least = 1;
        for (int64_t e = ends[0]; e < ends[1]; ++e) {
          const double w = top.weights.at<double>(e);
          EXPECT_NEAR(w, all.at<double>(0, heads[n], rows[r], top.keys.at<int64_t>(e)), 1e-13);
          EXPECT_LE(w, least + 1e-15);
          sum += least = w;
        }
        // The fewest that reach top_p of what the keys have; a sink keeps its share.
        double row = 0;
        for (int64_t j = 0; j < 140; ++j) row += all.at<double>(0, heads[n], rows[r], j);
        if (row >= 0.7 + 1e-9) {
          EXPECT_GE(sum, 0.7 - 1e-12);
          EXPECT_LT(sum - least, 0.7);
        }
      }
    }
  }
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

TEST(Fused, GradientsEqualFiniteDifferences) {
  const Tensor mask = random_tensor({2, 1, 7, 11}, 50), sinks = random_tensor({4}, 60);
  mask.at<double>(1, 0, 3, 4) = -INFINITY;
  Call call = make_call(51, 2, 2, 2, 7, 11, 5, 6,
                        {.causal = Causal::bottom_right,
                         .window = {6, -1},
                         .softcap = 1.5,
                         .score_mod = squares(),
                         .mask = mask,
                         .alibi = random_tensor({4}, 61),
                         .sinks = sinks,
                         .key_lengths = Tensor::from<int32_t>({11, 8}, {2}),
                         .dropout = 0.2,
                         .seed = 9});
  const Outputs r = fused(call, DType::f64);
  call.options.want_lse = true;
  const auto loss = [&] {
    const AttentionResult y = attention(call.q, call.k, call.v, call.options);
    double sum = 0;
    for (int64_t i = 0; i < y.out.numel(); ++i) sum += y.out.data<double>()[i] * call.grad.data<double>()[i];
    for (int64_t i = 0; i < y.lse.numel(); ++i) sum += y.lse.data<double>()[i] * call.grad_lse.data<double>()[i];
    return sum;
  };
  const std::pair<Tensor, Tensor> checked[] = {{call.q, r.gradients.q},
                                               {call.k, r.gradients.k},
                                               {call.v, r.gradients.v},
                                               {mask, r.gradients.mask},
                                               {sinks, r.gradients.sinks}};
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

/// More pairs than 32 bits count, most of them in tiles that are never computed.
TEST(Fused, MorePairsThan32Bits) {
  constexpr int64_t L = 70000, D = 2;
  Call call = make_call(70, 1, 1, 1, L, L, D, D, {.causal = Causal::top_left, .window = {40, -1}});
  call.grad_lse = {};
  const Call f32 = test::rounded(call, DType::f32);
  Call c = test::converted(call, DType::f32);
  c.options.want_lse = true;
  const AttentionResult r = attention(c.q, c.k, c.v, c.options);
  const AttentionGradients g = attention_backward(c.grad, c.q, c.k, c.v, r, c.options);
  // Queries from `at` on, and the keys that they see, by themselves: the same numbers.
  for (const int64_t at : {int64_t{0}, L / 2, L - 200}) {
    const int64_t first = std::max<int64_t>(0, at - 40), keys = at + 200 - first;
    Call part;
    const auto rows = [](const Tensor& t, int64_t begin, int64_t n) { return t.slice(2, begin, begin + n); };
    part.q = rows(f32.q, at, 200), part.grad = rows(f32.grad, at, 200);
    part.k = rows(f32.k, first, keys), part.v = rows(f32.v, first, keys);
    part.options = {.causal = Causal::top_left, .offset = at - first, .window = {40, -1}};
    const Textbook exact = part.book<double>();
    EXPECT_LE(max_error(rows(r.out, at, 200), exact.out), 1e-5) << at;
    EXPECT_LE(max_error(r.lse.slice(2, at, at + 200), exact.lse), 1e-5) << at;
    EXPECT_LE(max_error(rows(g.q, at, 200), exact.dq), 1e-5) << at;
    // Keys in the middle are seen by rows of this part alone.
    EXPECT_LE(max_error(rows(g.k, at + 10, 150), rows(exact.dk, at - first + 10, 150)), 1e-5) << at;
    EXPECT_LE(max_error(rows(g.v, at + 10, 150), rows(exact.dv, at - first + 10, 150)), 1e-5) << at;
  }
}

}  // namespace
}  // namespace heed
