// Weights and scores of chosen heads and rows against the textbook, on every SIMD target that this machine can run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "attention/fused.h"
#include "attention/testing.h"
#include "simd/targets.h"

namespace heed {
namespace {

using test::random_tensor;
using test::same_bits;
using test::Textbook;
using test::textbook;

constexpr ScoreStage kStages[] = {ScoreStage::scaled, ScoreStage::softcap, ScoreStage::masked, ScoreStage::weights};

/// A call with what the two types need to agree on, in double.
struct Call {
  Tensor q, k, v;
  AttentionOptions options;
  bool ragged() const { return options.q_offsets.defined(); }
};

template <class T>
AttentionResult run(const Call& call, AttentionOptions o) {
  const DType dtype = dtype_of<T>();
  for (Tensor* t : {&o.mask, &o.alibi, &o.sinks})
    if (t->defined() && t->dtype() != DType::boolean) *t = t->to(dtype);
  if (o.implementation == Implementation::automatic) o.implementation = Implementation::fused;
  return attention(call.q.to(dtype), call.k.to(dtype), call.v.to(dtype), o);
}

template <class T>
AttentionResult inspected(const Call& call, ScoreStage stage, Executor* executor = nullptr) {
  AttentionOptions o = call.options;
  o.want_scores = stage;
  o.want_weights = true;
  o.executor = executor;
  return run<T>(call, o);
}

std::vector<int64_t> numbers_below(int64_t n, int64_t count, std::mt19937_64& bits) {
  std::vector<int64_t> list(static_cast<size_t>(count));
  for (int64_t& x : list) x = static_cast<int64_t>(bits() % static_cast<uint64_t>(n));
  return list;
}
Tensor vector_of(const std::vector<int64_t>& list) { return Tensor::from(list, {static_cast<int64_t>(list.size())}); }

/// Shapes and options at random, with every option in about a third of the calls.
Call random_call(uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); };
  const auto third = [&] { return below(3) == 0; };
  const int64_t B = 1 + below(3), Hkv = 1 + below(2), Hq = Hkv * (1 + below(3)), D = 1 + below(70), Dv = 1 + below(9);
  const int64_t sizes[] = {1, 2, 17, 63, 64, 65, 130};
  const int64_t Lq = sizes[below(7)], Lk = sizes[below(7)];
  Call call;
  AttentionOptions& o = call.options;
  const bool ragged = third();
  if (ragged) {
    std::vector<int64_t> q_offsets{0}, k_offsets{0};
    for (int64_t b = 0; b < B; ++b) {
      q_offsets.push_back(q_offsets.back() + below(Lq + 1));
      k_offsets.push_back(k_offsets.back() + below(Lk + 1));
    }
    q_offsets.back() += 1;
    k_offsets.back() += 1;
    o.q_offsets = vector_of(q_offsets);
    o.k_offsets = vector_of(k_offsets);
    call.q = random_tensor({q_offsets.back(), Hq, D}, seed + 1);
    call.k = random_tensor({k_offsets.back(), Hkv, D}, seed + 2);
    call.v = random_tensor({k_offsets.back(), Hkv, Dv}, seed + 3);
  } else {
    call.q = random_tensor({B, Hq, Lq, D}, seed + 1);
    call.k = random_tensor({B, Hkv, Lk, D}, seed + 2);
    call.v = random_tensor({B, Hkv, Lk, Dv}, seed + 3);
    if (third()) o.key_lengths = vector_of(numbers_below(Lk + 1, B, bits));
    if (third()) {
      const int64_t keys = below(2) || Lk < 3 ? Lk : 2 + below(Lk - 2);
      o.mask = random_tensor({below(2) ? B : 1, 1, below(2) ? Lq : 1, keys}, seed + 4);
      for (double& x : o.mask.span<double>())
        if (below(4) == 0) x = -INFINITY;
    } else if (third()) {
      o.mask = Tensor::empty({Lq, Lk}, DType::boolean);
      for (bool& open : o.mask.span<bool>()) open = below(3) > 0;
    }
    if (third()) {  // tiles of every class
      const auto open = [](auto at) {
        const int kind = (at.query / 64 + at.key / 64 + at.head) % 3;
        return kind == 1 || (kind == 2 && (at.query + at.key) % 3 != 0);
      };
      o.block_mask = block_mask(open, 1, Hq, Lq, Lk);
    }
  }
  if (third()) o.causal = below(2) ? Causal::top_left : Causal::bottom_right;
  if (o.causal != Causal::bottom_right && third()) o.offset = below(20) - 10;
  if (third()) o.window = {below(40), below(2) ? -1 : below(10)};
  if (third()) o.softcap = 0.5 + static_cast<double>(below(3));
  if (third())
    o.score_mod =
        score_mod([](auto score, auto at) { return score * 0.75f + 0.01f * static_cast<float>(at.key - at.query); });
  if (third()) o.alibi = random_tensor({Hq}, seed + 5, DType::f64, 0.1);
  if (third()) o.sinks = random_tensor({Hq}, seed + 6);
  return call;
}

/// Rounding of a whole row of products: scores of this size are about 10.
template <class T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 2e-5 : 1e-12;
}

template <class T>
void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(to_string(got.shape()), to_string(want.shape())) << what;
  const Tensor a = got.to(DType::f64);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = want.data<double>()[i];
    if (x == y) continue;
    ASSERT_LE(std::abs(x - y), tolerance<T>() * std::max(1.0, std::abs(y))) << what << ", element " << i;
  }
}

template <class T>
void expect_textbook(const Call& call) {
  for (const ScoreStage stage : kStages) {
    AttentionOptions o = call.options;
    o.want_scores = stage;
    const Textbook exact = textbook<double>(call.q, call.k, call.v, o);
    const AttentionResult r = inspected<T>(call, stage);
    const std::string name = "stage " + std::to_string(static_cast<int>(stage));
    expect_near<T>(r.weights, exact.weights, name + ", weights");
    expect_near<T>(r.scores, exact.scores, name + ", scores");
    if (stage == ScoreStage::weights) {
      EXPECT_TRUE(same_bits(r.scores, r.weights));
    }
  }
}

void on_each_target(const std::function<void()>& body) {
  for (const int64_t target : fused_targets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    set_targets_for_test(target);
    body();
  }
  set_targets_for_test(0);
}

TEST(Inspect, AgreesWithTheTextbook) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Call call = random_call(seed * 100);
    expect_textbook<float>(call);
    expect_textbook<double>(call);
    if (HasFatalFailure()) return;
  }
}

TEST(Inspect, AgreesOnEveryTarget) {
  on_each_target([] {
    for (uint64_t seed = 200; seed < 212; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      const Call call = random_call(seed * 100);
      expect_textbook<float>(call);
      expect_textbook<double>(call);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Inspect, HalfStorage) {
  Call call = random_call(2600);
  call.options = {.causal = Causal::top_left};
  for (const DType storage : {DType::f16, DType::bf16}) {
    call.q = random_tensor({2, 4, 70, 37}, 1, storage);
    call.k = random_tensor({2, 2, 90, 37}, 2, storage);
    call.v = random_tensor({2, 2, 90, 5}, 3, storage);
    AttentionOptions o{.causal = Causal::top_left, .want_weights = true, .want_scores = ScoreStage::masked};
    const AttentionResult r = attention(call.q, call.k, call.v, o);
    ASSERT_EQ(r.weights.dtype(), DType::f32);
    const Textbook exact = textbook<double>(call.q.to(DType::f64), call.k.to(DType::f64), call.v.to(DType::f64), o);
    expect_near<float>(r.weights, exact.weights, "weights");
    expect_near<float>(r.scores, exact.scores, "scores");
  }
}

// Rows in any order, some twice, some in runs across tiles; heads likewise. The bits are those of all weights.
TEST(Inspect, ChosenHeadsAndRowsAreThoseOfTheWhole) {
  std::mt19937_64 bits(7);
  for (uint64_t seed = 300; seed < 330; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Call call = random_call(seed * 100);
    AttentionOptions o = call.options;
    o.want_weights = true;
    const Tensor whole = run<float>(call, o).weights;
    const int64_t Hq = call.q.size(1), Lq = call.ragged() ? call.q.size(0) : call.q.size(2);
    const std::vector<int64_t> heads = numbers_below(Hq, 1 + static_cast<int64_t>(seed % 4), bits);
    std::vector<int64_t> rows = numbers_below(Lq, 5, bits);
    for (int64_t i = Lq / 3; i < Lq; ++i) rows.push_back(i);
    o.selection.heads = vector_of(heads);
    if (!call.ragged()) o.selection.rows = vector_of(rows);
    const Tensor part = run<float>(call, o).weights;
    const int64_t B = call.ragged() ? 1 : call.q.size(0), Lk = whole.size(-1);
    if (call.ragged()) {
      rows.resize(static_cast<size_t>(Lq));
      std::iota(rows.begin(), rows.end(), 0);
    }
    const auto N = static_cast<int64_t>(heads.size()), R = static_cast<int64_t>(rows.size());
    ASSERT_EQ(part.numel(), B * N * R * Lk);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t n = 0; n < N; ++n)
        for (int64_t r = 0; r < R; ++r) {
          const int64_t from = (b * Hq + heads[static_cast<size_t>(n)]) * Lq + rows[static_cast<size_t>(r)];
          const float* const want = whole.data<float>() + from * Lk;
          const float* const got = part.data<float>() + ((b * N + n) * R + r) * Lk;
          ASSERT_TRUE(std::equal(want, want + Lk, got)) << b << ", " << n << ", " << r;
        }
  }
}

TEST(Inspect, TopPKeepsTheFewestLargest) {
  on_each_target([] {
    for (uint64_t seed = 400; seed < 415; ++seed) {
      const Call call = random_call(seed * 100);
      for (const double top_p : {0.01, 0.5, 0.9, 0.999}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", top_p " + std::to_string(top_p));
        AttentionOptions o = call.options;
        o.want_weights = true;
        const Tensor whole = run<double>(call, o).weights;
        o.selection.top_p = top_p;
        const AttentionResult r = run<double>(call, o);
        EXPECT_FALSE(r.weights.defined());
        const int64_t Lk = whole.size(-1), rows = Lk ? whole.numel() / Lk : 0;
        ASSERT_EQ(r.top.offsets.numel(), rows + 1);
        const auto* const offsets = r.top.offsets.data<int64_t>();
        for (int64_t row = 0; row < rows; ++row) {
          const double* const w = whole.data<double>() + row * Lk;
          std::vector<int64_t> order(static_cast<size_t>(Lk));
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return w[a] > w[b]; });
          double sum = 0;
          size_t n = 0;
          for (; n < order.size() && sum < top_p && w[order[n]] > 0; ++n) sum += w[order[n]];
          ASSERT_EQ(offsets[row + 1] - offsets[row], static_cast<int64_t>(n)) << "row " << row;
          for (size_t i = 0; i < n; ++i) {
            const int64_t at = offsets[row] + static_cast<int64_t>(i);
            ASSERT_EQ(r.top.keys.data<int64_t>()[at], order[i]);
            ASSERT_EQ(r.top.weights.data<double>()[at], w[order[i]]);
          }
        }
      }
    }
  });
}

TEST(Inspect, TopPOfEqualWeightsTakesTheLowerKeys) {
  const Tensor q = Tensor::zeros({1, 1, 2, 4}), k = Tensor::zeros({1, 1, 8, 4});
  AttentionOptions o{.causal = Causal::bottom_right, .want_weights = true};
  o.selection.top_p = 0.5;
  const TopWeights top = attention(q, k, k, o).top;  // 7 keys of 1/7, then 8 of 1/8
  const std::vector<int64_t> offsets{0, 4, 8}, keys{0, 1, 2, 3, 0, 1, 2, 3};
  EXPECT_TRUE(std::equal(offsets.begin(), offsets.end(), top.offsets.data<int64_t>()));
  EXPECT_TRUE(std::equal(keys.begin(), keys.end(), top.keys.data<int64_t>()));
}

// What is not finite stays where it may be seen; a hidden key has the weight 0 in every row, even one that is NaN.
TEST(Inspect, NanStaysWhereItIsSeen) {
  const Tensor q = random_tensor({1, 1, 70, 8}, 1, DType::f32), v = random_tensor({1, 1, 70, 8}, 3, DType::f32);
  const Tensor k = random_tensor({1, 1, 70, 8}, 2, DType::f32), clean = k.clone();
  k.at<float>(0, 0, 40, 3) = NAN;
  AttentionOptions o{.causal = Causal::top_left, .want_weights = true, .want_scores = ScoreStage::masked};
  const AttentionResult r = attention(q, k, v, o), want = attention(q, clean, v, o);
  for (int64_t i = 0; i < 70; ++i)
    for (int64_t j = 0; j < 70; ++j) {
      const float weight = r.weights.at<float>(0, 0, i, j), score = r.scores.at<float>(0, 0, i, j);
      if (j > i || i < 40) {
        ASSERT_EQ(weight, want.weights.at<float>(0, 0, i, j));
        ASSERT_EQ(score, want.scores.at<float>(0, 0, i, j));
      } else {
        ASSERT_TRUE(std::isnan(weight));
        ASSERT_EQ(std::isnan(score), j == 40);
      }
    }
}

TEST(Inspect, SameBitsForAnyNumberOfThreads) {
  for (uint64_t seed = 500; seed < 504; ++seed) {
    const Call call = random_call(seed * 100);
    AttentionOptions o = call.options;
    o.want_weights = true;
    o.selection.top_p = 0.8;
    const auto one = make_executor(1);
    o.executor = one.get();
    const AttentionResult alone = inspected<float>(call, ScoreStage::masked, one.get());
    const TopWeights top = run<float>(call, o).top;
    for (const int threads : {2, 3, 8}) {
      const auto many = make_executor(threads);
      const AttentionResult r = inspected<float>(call, ScoreStage::masked, many.get());
      EXPECT_TRUE(same_bits(r.weights, alone.weights));
      EXPECT_TRUE(same_bits(r.scores, alone.scores));
      o.executor = many.get();
      const TopWeights t = run<float>(call, o).top;
      EXPECT_TRUE(same_bits(t.offsets, top.offsets));
      EXPECT_TRUE(same_bits(t.keys, top.keys));
      EXPECT_TRUE(same_bits(t.weights, top.weights));
    }
  }
}

}  // namespace
}  // namespace heed
