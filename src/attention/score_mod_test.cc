// score_mod: dual numbers, the functions that vectorise, and the loops over tiles.
#include <gtest/gtest.h>

#include <cfloat>
#include <cstring>
#include <random>

#include "attention/testing.h"
#include "heed/attention.h"

namespace heed {
namespace {

/// Numbers of every size, and the edges.
template <class T>
std::vector<T> samples(T low, T high) {
  std::vector<T> x = {T{0},
                      -T{0},
                      std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity(),
                      std::numeric_limits<T>::quiet_NaN(),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max(),
                      std::numeric_limits<T>::lowest(),
                      T{1},
                      -T{1}};
  std::mt19937 generator(1);
  std::uniform_real_distribution<T> linear(low, high), exponent(-30, 10);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(linear(generator));
    x.push_back(std::copysign(std::exp2(exponent(generator)), linear(generator)));
  }
  return x;
}

/// Distance in units of the last place of `expected`; 0 where both are NaN or the same.
template <class T>
double ulp(T x, long double expected) {
  const T rounded = static_cast<T>(expected);
  if (x == rounded || (std::isnan(x) && std::isnan(rounded))) return 0;
  if (!std::isfinite(x) || !std::isfinite(rounded)) return INFINITY;
  const T unit = std::max(std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity()) - std::abs(rounded),
                          std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::abs(static_cast<long double>(x) - expected) / static_cast<long double>(unit));
}

template <class T, class F, class Exact>
void expect_accurate(const char* name, F f, Exact exact, T low, T high, double tolerance) {
  double worst = 0;
  T where = 0;
  for (const T x : samples<T>(low, high)) {
    const double error = ulp(f(x), exact(static_cast<long double>(x)));
    if (!(error <= worst)) worst = error, where = x;
    const Dual<T> y = f(Dual<T>{x, T{1}});
    const T value = f(x);
    ASSERT_TRUE(std::memcmp(&y.value, &value, sizeof(T)) == 0 || (std::isnan(value) && std::isnan(y.value)))
        << name << "(" << x << ")";
  }
  EXPECT_LE(worst, tolerance) << name << "(" << where << ")";
}

template <class T>
void expect_functions_accurate() {
  expect_accurate<T>(
      "exp", [](auto x) { return heed::exp(x); }, [](long double x) { return std::exp(x); }, -110, 95, 2);
  expect_accurate<T>(
      "log", [](auto x) { return heed::log(x); }, [](long double x) { return std::log(x); }, 0, 1000, 2);
  expect_accurate<T>(
      "sqrt", [](auto x) { return heed::sqrt(x); }, [](long double x) { return std::sqrt(x); }, 0, 1000, 1);
  expect_accurate<T>(
      "tanh", [](auto x) { return heed::tanh(x); }, [](long double x) { return std::tanh(x); }, -10, 10, 3);
  expect_accurate<T>(
      "sigmoid", [](auto x) { return heed::sigmoid(x); }, [](long double x) { return 1 / (1 + std::exp(-x)); }, -80, 80,
      3);
}

TEST(ScoreFunctions, AreAccurate) {
  expect_functions_accurate<float>();
  expect_functions_accurate<double>();
  EXPECT_EQ(heed::exp(800.0), INFINITY);
  EXPECT_GT(heed::exp(-740.0), 0);  // a subnormal number
  EXPECT_EQ(heed::exp(-800.0), 0);
}

TEST(ScoreFunctions, MinMaxAbsWhere) {
  const Dual<float> a{2, 3}, b{2, 5}, c{-1, 7};
  EXPECT_EQ(heed::max(a, b).derivative, 3);  // the first of equals
  EXPECT_EQ(heed::min(a, b).derivative, 3);
  EXPECT_EQ(heed::max(c, a).derivative, 3);
  EXPECT_EQ(heed::min(c, a).derivative, 7);
  EXPECT_EQ(heed::max(a, 4).value, 4);
  EXPECT_EQ(heed::max(a, 4).derivative, 0);
  EXPECT_EQ(heed::max(a, 1).derivative, 3);
  EXPECT_EQ(heed::max(1, 2.5), 2.5);
  EXPECT_EQ(heed::min(3, -2), -2);
  EXPECT_EQ(heed::abs(c).value, 1);
  EXPECT_EQ(heed::abs(c).derivative, -7);
  EXPECT_EQ(heed::abs(Dual<float>{0, 7}).derivative, 0);
  EXPECT_EQ(heed::abs(-7), 7);
  EXPECT_EQ(heed::where(true, a, -INFINITY).derivative, 3);
  EXPECT_EQ(heed::where(false, a, -INFINITY).value, -INFINITY);
  EXPECT_EQ(heed::where(false, a, -INFINITY).derivative, 0);
  EXPECT_EQ(heed::where(true, 1, 2.5), 1.0);
  static_assert(std::is_same_v<decltype(heed::where(true, 1, a)), Dual<float>>);
  static_assert(std::is_same_v<decltype(0.5 * a + 1 - 2.0 / a), Dual<float>>);
  static_assert(std::is_same_v<decltype(heed::max(1, 2.5f)), float>);
}

/// The functions that tests below put through: as a lambda, for any number.
template <class Check>
void each_score_function(const Check& check) {
  check("sum", [](auto s, auto at) { return 2 - (s + 1) * 0.5f + at.key - at.query * 0.25; });
  check("product", [](auto s, auto) { return s * s * s - s * 0.1f + s * s; });
  check("quotient", [](auto s, auto) { return 1 / (s * s + 2) + (s - 3) / (2 + s * s) + s / 3; });
  check("exp", [](auto s, auto) { return heed::exp(-s * s) + heed::sigmoid(s * 2); });
  check("log", [](auto s, auto) { return heed::log(s * s + 1) * heed::sqrt(s * s + 2); });
  check("tanh", [](auto s, auto) { return 1.5f * heed::tanh(s / 1.5f); });
  check("abs", [](auto s, auto at) { return heed::abs(s + 0.1f) * heed::abs(at.query - at.key); });
  check("max", [](auto s, auto) { return heed::max(s, heed::min(s * 2, 0.3f)) + heed::min(-1, s); });
  check("where", [](auto s, auto at) { return heed::where(at.key <= at.query, +s, -s * s); });
  check("where", [](auto s, auto) { return heed::where(s > 0, s, 0.1f * s); });
  check("compare", [](auto s, auto) { return s >= 1 ? s : s * 0; });
  check("assign", [](auto s, auto at) {
    s += at.key;
    s *= 2;
    s -= s * s;
    s /= 3;
    return s;
  });
  check("constant", [](auto, auto) { return 3; });
  check("head", [](auto s, auto at) { return s * (1 + at.head) + at.batch; });
}

TEST(Dual, DerivativesAreDifferences) {
  each_score_function([](const char* name, auto f) {
    std::mt19937 generator(2);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 200; ++i) {
      const ScoreAt at{i % 3, i % 5, i, 2 * i % 77};
      const double x = normal(generator), h = 1e-6;
      const auto value = [&](double s) { return Dual<double>(f(Dual<double>{s, 0}, at)).value; };
      const double difference = (value(x + h) - value(x - h)) / (2 * h);
      EXPECT_NEAR(Dual<double>(f(Dual<double>{x, 1}, at)).derivative, difference, 1e-7 * (1 + std::abs(difference)))
          << name << "(" << x << ")";
      const double chained = Dual<double>(f(Dual<double>{x, 3}, at)).derivative / 3;  // the chain rule
      EXPECT_NEAR(chained, difference, 1e-7 * (1 + std::abs(difference))) << name << "(" << x << ")";
    }
  });
}

/// Forward and backward over a tile against the function called by itself.
template <class T, class F>
void expect_tile(const char* name, const F& f, int32_t queries, int32_t keys, int64_t pitch) {
  SCOPED_TRACE(std::string(name) + " " + std::to_string(queries) + " x " + std::to_string(keys));
  std::mt19937 generator(3);
  std::normal_distribution<T> normal;
  std::vector<T> scores(static_cast<size_t>(keys * pitch));
  for (T& s : scores) s = normal(generator);
  std::vector<T> forward = scores, backward = scores, derivatives(scores.size(), T{77});
  ScoreTile<T> tile;
  tile.batch = 1, tile.head = 2, tile.query = 128, tile.key = 64;
  tile.queries = queries, tile.keys = keys, tile.pitch = pitch;
  const ScoreMod mod = score_mod(f);
  tile.scores = forward.data();
  mod(tile);
  tile.scores = backward.data(), tile.derivatives = derivatives.data();
  mod(tile);
  const double tolerance = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (int32_t j = 0; j < keys; ++j)
    for (int32_t i = 0; i < queries; ++i) {
      const auto at = static_cast<size_t>(j * pitch + i);
      const Dual<T> y = f(Dual<T>{scores[at], T{1}}, ScoreAt{1, 2, 128 + i, 64 + j});
      ASSERT_EQ(std::memcmp(&forward[at], &backward[at], sizeof(T)), 0) << i << " " << j;
      ASSERT_NEAR(forward[at], y.value, tolerance * (1 + std::abs(static_cast<double>(y.value))));
      ASSERT_NEAR(derivatives[at], y.derivative, tolerance * (1 + std::abs(static_cast<double>(y.derivative))));
    }
}

TEST(ScoreMod, TilesAreTheFunctionOnEveryPair) {
  each_score_function([](const char* name, auto f) {
    for (const auto& [queries, keys] : {std::pair{64, 64}, {1, 1}, {1, 64}, {16, 3}, {17, 5}, {63, 64}, {40, 33}}) {
      expect_tile<float>(name, f, queries, keys, 64);
      expect_tile<double>(name, f, queries, keys, (queries + 15) / 16 * 16);
    }
  });
}

TEST(ScoreMod, FusedIsTheReference) {
  const auto same = [](const char* name, const Tensor& a, const Tensor& b, double tolerance) {
    EXPECT_LE(test::max_error(a, b), tolerance * (1 + test::max_abs(b))) << name;
  };
  each_score_function([&](const char* name, auto f) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor q = test::random_tensor({2, 4, 70, 9}, 1, dtype), k = test::random_tensor({2, 2, 83, 9}, 2, dtype);
      const Tensor v = test::random_tensor({2, 2, 83, 5}, 3, dtype),
                   grad = test::random_tensor({2, 4, 70, 5}, 4, dtype);
      AttentionOptions options{.causal = Causal::bottom_right, .softcap = 3, .score_mod = score_mod(f)};
      options.want_lse = true;
      options.implementation = Implementation::fused;
      const AttentionResult fused = attention(q, k, v, options);
      const AttentionGradients gradients = attention_backward(grad, q, k, v, fused, options);
      options.implementation = Implementation::reference;
      const AttentionResult reference = attention(q, k, v, options);
      const AttentionGradients expected = attention_backward(grad, q, k, v, reference, options);
      const double tolerance = dtype == DType::f32 ? 2e-4 : 1e-12;
      same(name, fused.out, reference.out, tolerance);
      same(name, fused.lse, reference.lse, tolerance);
      same(name, gradients.q, expected.q, tolerance);
      same(name, gradients.k, expected.k, tolerance);
      same(name, gradients.v, expected.v, tolerance);
    }
  });
}

/// Whole calls, forward and backward, with two functions that give the same.
template <class T>
void expect_same_calls(const ScoreMod& mod, const ScoreMod& expected) {
  const DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  for (const int64_t queries : {int64_t{1}, int64_t{70}}) {
    test::Call call{test::random_tensor({2, 2, queries, 8}, 1), test::random_tensor({2, 2, 150, 8}, 2),
                    test::random_tensor({2, 2, 150, 8}, 3), test::random_tensor({2, 2, queries, 8}, 4)};
    call.options.softcap = 3;
    call.options.score_mod = expected;
    const test::Outputs r = test::run(test::converted(call, dtype));
    call.options.score_mod = mod;
    const test::Outputs s = test::run(test::converted(call, dtype));
    const double close = dtype == DType::f64 ? 1e-13 : 1e-5;
    EXPECT_LT(test::max_error(s.result.out.to(DType::f64), r.result.out.to(DType::f64)), close);
    EXPECT_LT(test::max_error(s.gradients.q.to(DType::f64), r.gradients.q.to(DType::f64)), close);
    EXPECT_LT(test::max_error(s.gradients.k.to(DType::f64), r.gradients.k.to(DType::f64)), close);
  }
}

TEST(ScoreMod, JoinedFunctionsComeOneAfterAnother) {
  const ScoreMod square = score_mod([](auto score, auto at) { return score * score + 0.1f * at.head; });
  const ScoreMod less = score_mod([](auto score, auto at) { return 0.5f * score - 0.01f * at.key; });
  const ScoreMod cap = score_mod([](auto score, auto) { return 2 * heed::tanh(score); });
  const ScoreMod written = score_mod(
      [](auto score, auto at) { return 2 * heed::tanh(0.5f * (score * score + 0.1f * at.head) - 0.01f * at.key); });
  expect_same_calls<float>(square | less | cap, written);
  expect_same_calls<double>((square | (ScoreMod() | less)) | (cap | ScoreMod()), written);
  EXPECT_FALSE(ScoreMod() | ScoreMod());
}

TEST(ScoreMod, TakesTilesThatChangeThemselves) {
  const ScoreMod tiles = score_mod([](const auto& tile) {
    for (int64_t j = 0; j < tile.keys; ++j)
      for (int64_t i = 0; i < tile.queries; ++i) {
        const int64_t at = j * tile.pitch + i;
        if (tile.derivatives) tile.derivatives[at] = 2 * tile.scores[at];
        tile.scores[at] *= tile.scores[at];
      }
  });
  const ScoreMod lambda = score_mod([](auto score, auto) { return score * score; });
  expect_same_calls<float>(tiles, lambda);
  expect_same_calls<double>(tiles, lambda);
}

TEST(ScoreMod, VisitorsSumGradientsOfParameters) {
  const Tensor q = test::random_tensor({2, 2, 70, 8}, 1), k = test::random_tensor({2, 2, 90, 8}, 2);
  const Tensor grad = test::random_tensor({2, 2, 70, 8}, 3);
  const auto loss = [&](double a, double b, ScoreVisitor visitor) {
    AttentionOptions options{.softcap = 2};
    options.score_mod = score_mod([a, b](auto s, auto at) { return a * s * s + b * heed::abs(at.query - at.key); });
    options.block_mask = block_mask([](auto at) { return at.key % 7 != at.query % 3; }, 1, 1, 70, 90);
    options.want_lse = true;
    const AttentionResult r = attention(q, k, k, options);
    attention_backward(grad, q, k, k, r, options, {.visitor = std::move(visitor)});
    double sum = 0;
    for (int64_t i = 0; i < grad.numel(); ++i) sum += grad.data<double>()[i] * r.out.contiguous().data<double>()[i];
    return sum;
  };
  double da = 0, db = 0, tiles = 0;
  loss(0.3, -0.01, score_visitor([&](auto gradient, auto score, ScoreAt at) {
         da += gradient * score * score;
         db += static_cast<double>(gradient) * heed::abs(at.query - at.key);
       }));
  loss(0.3, -0.01, score_visitor([&](const auto& tile) {
         for (int32_t j = 0; j < tile.keys; ++j)
           for (int32_t i = 0; i < tile.queries; ++i) {
             const auto score = tile.scores[j * tile.pitch + i];
             tiles += tile.gradients[j * tile.pitch + i] * score * score;
           }
       }));
  const double h = 1e-5;
  EXPECT_NEAR(da, (loss(0.3 + h, -0.01, {}) - loss(0.3 - h, -0.01, {})) / (2 * h), 1e-7);
  EXPECT_NEAR(db, (loss(0.3, -0.01 + h, {}) - loss(0.3, -0.01 - h, {})) / (2 * h), 1e-5);
  EXPECT_NEAR(tiles, da, 1e-12);
}

TEST(ScoreMod, LambdasSeeNoQueryPastTheLast) {
  std::vector<float> table(128 + 37);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  expect_tile<float>(
      "table", [&](auto s, auto at) { return s + table.at(static_cast<size_t>(at.query)); }, 37, 9, 48);
}

TEST(ScoreMod, CopiesShareAndOutliveTheFirst) {
  ScoreMod copy;
  EXPECT_FALSE(copy);
  {
    const std::vector<float> bias(4, 0.5f);
    copy = score_mod([bias](auto s, auto at) { return s + bias[static_cast<size_t>(at.head)]; });
  }
  ASSERT_TRUE(copy);
  float scores[kScoreLanes] = {1};
  ScoreTile<float> tile;
  tile.head = 3, tile.queries = tile.keys = 1, tile.pitch = kScoreLanes, tile.scores = scores;
  copy(tile);
  EXPECT_EQ(scores[0], 1.5f);
}

TEST(ScoreVisitor, PairsOrTiles) {
  const float gradients[] = {1, 2, 0, 99, 3, 4, 5, 99}, scores[] = {10, 20, NAN, 99, 30, 40, 50, 99};
  const ScoreGradientTile<float> tile{1, 2, 64, 128, 3, 2, 4, gradients, scores};
  double sum = 0, weighted = 0;
  int pairs = 0;
  score_visitor([&](auto gradient, auto score, ScoreAt at) {
    sum += gradient * score;
    weighted += gradient * static_cast<float>(at.query + 1000 * at.key);
    ++pairs;
  })(tile);
  EXPECT_EQ(pairs, 5);  // the pair whose gradient is 0 is hidden, perhaps
  EXPECT_EQ(sum, 10 + 40 + 90 + 160 + 250);
  EXPECT_EQ(weighted, 1 * 128064 + 2 * 128065 + 3 * 129064 + 4 * 129065 + 5 * 129066);
  int tiles = 0;
  const ScoreVisitor by_tile = score_visitor([&](const auto& t) { tiles += t.queries == 3 && t.keys == 2; });
  by_tile(tile);
  by_tile(ScoreGradientTile<double>{0, 0, 0, 0, 3, 2});
  EXPECT_EQ(tiles, 2);
}

}  // namespace
}  // namespace heed
