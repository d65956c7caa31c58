#include "kernels/loss.h"

#include "kernels/linear.h"
#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;
using Targets = std::vector<int32_t>;

constexpr int32_t kIgnore = -100;

Targets targets_of(int64_t rows, int64_t vocab, int64_t every_ignored) {
  std::mt19937 bits(5);
  Targets targets(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r)
    targets[static_cast<size_t>(r)] =
        every_ignored && r % every_ignored == 1 ? kIgnore : static_cast<int32_t>(bits() % static_cast<uint32_t>(vocab));
  return targets;
}

// PyTorch's definition, written out: (1 - s) nll + s / V sum_j -log p_j over the rows that count.
LossSum expected(const Values<double>& logits, const Targets& targets, double smoothing, int64_t vocab) {
  LossSum sum;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == kIgnore) continue;
    const double* const row = logits.data() + r * static_cast<size_t>(vocab);
    const double top = *std::max_element(row, row + vocab);
    double total = 0;
    for (int64_t j = 0; j < vocab; ++j) total += std::exp(row[j] - top);
    const auto nll = [&](int64_t j) { return top + std::log(total) - row[j]; };
    double uniform = 0;
    for (int64_t j = 0; j < vocab; ++j) uniform += nll(j) / static_cast<double>(vocab);
    sum.nll += nll(targets[r]);
    sum.loss += (1 - smoothing) * nll(targets[r]) + smoothing * uniform;
    ++sum.count;
  }
  return sum;
}

void expect_near(const LossSum& got, const LossSum& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * (1 + std::abs(want.loss)));
  EXPECT_NEAR(got.nll, want.nll, tolerance * (1 + std::abs(want.nll)));
  EXPECT_EQ(got.count, want.count);
}

template <class T>
using LogSums = std::vector<RowLogSum<T>>;

template <class T>
LossSum forward(const Values<T>& logits, const Targets& targets, double smoothing, int64_t vocab, LogSums<T>* log_sums,
                Executor& ex = test::one_thread()) {
  log_sums->assign(targets.size(), {static_cast<T>(NAN), static_cast<T>(NAN)});
  return cross_entropy_forward<T>(logits.data(), targets.data(), kIgnore, smoothing, log_sums->data(),
                                  static_cast<int64_t>(targets.size()), vocab, ex);
}

TEST(CrossEntropy, AgreesWithLoopsAndDifferences) {
  test::on_each_target([&] {
    for (const int64_t vocab : {1, 2, 9, 33})
      for (const int64_t rows : {0, 1, 4})
        for (const double smoothing : {0.0, 0.1, 1.0}) {
          SCOPED_TRACE(testing::Message() << rows << " x " << vocab << ", smoothing " << smoothing);
          Values<double> logits = test::normals<double>(rows * vocab, 1, 3);
          LogSums<double> log_sums;
          const Targets targets = targets_of(rows, vocab, 3);
          expect_near(forward(logits, targets, smoothing, vocab, &log_sums),
                      expected(logits, targets, smoothing, vocab), 1e-14);
          Values<double> d(logits.size(), NAN);
          cross_entropy_backward<double>(logits.data(), targets.data(), kIgnore, smoothing, log_sums.data(), 0.7,
                                         d.data(), rows, vocab, test::one_thread());
          test::expect_gradient(d, logits, [&] { return 0.7 * expected(logits, targets, smoothing, vocab).loss; });

          const Values<float> narrow(logits.begin(), logits.end());
          LogSums<float> narrow_wholes;
          Values<float> narrow_d(d.size());
          expect_near(forward(narrow, targets, smoothing, vocab, &narrow_wholes),
                      expected(test::widen(narrow), targets, smoothing, vocab), 1e-6);
          cross_entropy_backward<float>(narrow.data(), targets.data(), kIgnore, smoothing, narrow_wholes.data(), 0.7f,
                                        narrow_d.data(), rows, vocab, test::one_thread());
          test::expect_near(narrow_d, d, 1e-6);
        }
  });
}

TEST(CrossEntropy, LabelSmoothingByHand) {
  // p = (1/2, 1/4, 1/4), target 0, s = 0.3: nll = log 2, the mean of -log p = (log 2 + 2 log 4) / 3 = 5/3 log 2.
  const Values<double> logits = {std::log(2.0), 0, 0};
  LogSums<double> log_sums;
  const LossSum sum = forward(logits, Targets{0}, 0.3, 3, &log_sums);
  EXPECT_NEAR(sum.nll, std::log(2.0), 1e-15);
  EXPECT_NEAR(sum.loss, (0.7 + 0.3 * 5 / 3) * std::log(2.0), 1e-15);
  EXPECT_NEAR(log_sums[0].sum(), std::log(4.0), 1e-15);
  // p - (1 - s) [target] - s / V
  Values<double> d(3);
  cross_entropy_backward<double>(logits.data(), Targets{0}.data(), kIgnore, 0.3, log_sums.data(), 1, d.data(), 1, 3,
                                 test::one_thread());
  test::expect_near(d, {0.5 - 0.7 - 0.1, 0.25 - 0.1, 0.25 - 0.1}, 1e-15);
}

TEST(CrossEntropy, AllRowsIgnoredIsZero) {
  const Values<double> logits = test::normals<double>(12, 1);
  const Targets targets(4, kIgnore);
  LogSums<double> log_sums;
  Values<double> d(12, NAN);
  const LossSum sum = forward(logits, targets, 0.1, 3, &log_sums);
  EXPECT_EQ(sum.loss, 0);
  EXPECT_EQ(sum.nll, 0);
  EXPECT_EQ(sum.count, 0);
  cross_entropy_backward<double>(logits.data(), targets.data(), kIgnore, 0.1, log_sums.data(), 1, d.data(), 4, 3,
                                 test::one_thread());
  EXPECT_EQ(d, Values<double>(12, 0));
}

TEST(CrossEntropy, AnIgnoredRowMayHoldAnything) {
  const Values<float> logits = {1, 2, 3, NAN, NAN, INFINITY};
  LogSums<float> log_sums;
  Values<float> d(6, NAN);
  const Targets targets = {2, kIgnore};
  const LossSum sum = forward(logits, targets, 0.1, 3, &log_sums);
  EXPECT_TRUE(std::isfinite(sum.loss));
  cross_entropy_backward<float>(logits.data(), targets.data(), kIgnore, 0.1, log_sums.data(), 1, d.data(), 2, 3,
                                test::one_thread());
  EXPECT_EQ(Values<float>(d.begin() + 3, d.end()), Values<float>(3, 0));
}

TEST(CrossEntropy, ANanLogitMakesTheLossNan) {
  test::on_each_target([&] {
    for (const int64_t vocab : {4, 50})
      for (const int64_t at : {int64_t{0}, int64_t{2}, vocab - 1}) {
        Values<float> logits = test::normals<float>(vocab, 1);
        LogSums<float> log_sums;
        logits[static_cast<size_t>(at)] = NAN;
        EXPECT_TRUE(std::isnan(forward(logits, Targets{1}, 0, vocab, &log_sums).loss)) << at;
      }
  });
}

TEST(CrossEntropy, LargeLogitsKeepTheirDigits) {
  // A wide spread, and a plain sum of x (label smoothing) whose terms nearly cancel against the log-sum-exp.
  Values<float> logits = test::normals<float>(3000, 1, 2);
  LogSums<float> log_sums;
  for (float& x : logits) x += 500;
  const Targets targets = {7};
  const LossSum want = expected(test::widen(logits), targets, 0.1, 3000);
  expect_near(forward(logits, targets, 0.1, 3000, &log_sums), want, 1e-6);
}

// The softmax of numbers near a large one is that of their differences, whatever the numbers are (float keeps 2^24
// apart).
TEST(CrossEntropy, ALargeNumberInCommonChangesNothing) {
  test::on_each_target([&] {
    for (const float common : {0.0F, 4096.0F, -1048576.0F, 16000000.0F}) {
      SCOPED_TRACE(common);
      Values<float> logits(200);  // whole numbers: nothing is rounded when the large one is added
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7 % 13) - 6 + common;
      const Targets targets = {3, 17, kIgnore, 42};
      for (const double smoothing : {0.0, 0.1}) {
        LogSums<float> log_sums;
        expect_near(forward(logits, targets, smoothing, 50, &log_sums),
                    expected(test::widen(logits), targets, smoothing, 50), 1e-6);
        LogSums<double> wide;
        const Values<double> in_double = test::widen(logits);
        forward(in_double, targets, smoothing, 50, &wide);
        Values<float> d(logits.size(), NAN);
        Values<double> want(logits.size());
        cross_entropy_backward<float>(logits.data(), targets.data(), kIgnore, smoothing, log_sums.data(), 1, d.data(),
                                      4, 50, test::one_thread());
        cross_entropy_backward<double>(in_double.data(), targets.data(), kIgnore, smoothing, wide.data(), 1,
                                       want.data(), 4, 50, test::one_thread());
        test::expect_near(d, want, 1e-6);
      }
    }
  });
}

TEST(CrossEntropy, EqualLogitsAreEquallyProbableHoweverLarge) {
  for (const float all : {1e10F, 1e20F, -3e38F, 3e38F}) {
    const Values<float> logits(4, all);
    LogSums<float> log_sums;
    EXPECT_NEAR(forward(logits, Targets{1}, 0, 4, &log_sums).loss, std::log(4.0), 1e-6) << all;
    Values<float> d(4);
    cross_entropy_backward<float>(logits.data(), Targets{1}.data(), kIgnore, 0, log_sums.data(), 1, d.data(), 1, 4,
                                  test::one_thread());
    test::expect_near(d, {0.25, -0.75, 0.25, 0.25}, 1e-6);
    const Values<float> x = {0}, w(4, 0);
    EXPECT_NEAR(linear_cross_entropy<float>(x.data(), w.data(), logits.data(), Targets{1}.data(), kIgnore, 0, 0,
                                            nullptr, nullptr, nullptr, 1, 1, 1, 4, test::one_thread())
                    .loss,
                std::log(4.0), 1e-6)
        << all;
  }
}

// ---- With the projection ----

struct Fused {
  int64_t rows, in, vocab;
  Values<double> x = test::normals<double>(rows * in, 1), w = test::normals<double>(vocab * in, 2),
                 bias = test::normals<double>(vocab, 3);
  Targets targets = targets_of(rows, vocab, 4);
  double r_drop = 0;

  static Fused twins(int64_t rows, int64_t in, int64_t vocab, double r_drop) {
    Fused f{.rows = rows, .in = in, .vocab = vocab, .r_drop = r_drop};
    std::copy_n(f.targets.begin(), rows / 2, f.targets.begin() + rows / 2);
    return f;
  }

  Values<double> logits(bool with_bias) const {
    Values<double> logits(static_cast<size_t>(rows * vocab));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vocab; ++v) {
        double sum = with_bias ? bias[static_cast<size_t>(v)] : 0;
        for (int64_t i = 0; i < in; ++i) sum += x[static_cast<size_t>(r * in + i)] * w[static_cast<size_t>(v * in + i)];
        logits[static_cast<size_t>(r * vocab + v)] = sum;
      }
    return logits;
  }

  LossSum loss(bool with_bias) const {
    LossSum sum = expected(logits(with_bias), targets, 0.1, vocab);
    for (const double divergence : divergences(with_bias)) sum.loss += r_drop * divergence;
    return sum;
  }

  // (KL(p||p') + KL(p'||p)) / 2 of each pair of twins that counts; `gradient` gets what they add to that of the logits.
  Values<double> divergences(bool with_bias, Values<double>* gradient = nullptr) const {
    Values<double> each;
    if (r_drop == 0) return each;
    const Values<double> all = logits(with_bias);
    const auto n = static_cast<size_t>(vocab), half = static_cast<size_t>(rows / 2);
    const auto log_p = [&](size_t row) {
      Values<double> p(all.begin() + static_cast<ptrdiff_t>(row * n),
                       all.begin() + static_cast<ptrdiff_t>((row + 1) * n));
      const double top = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (const double logit : p) sum += std::exp(logit - top);
      for (double& logit : p) logit -= top + std::log(sum);
      return p;
    };
    for (size_t r = 0; r < half; ++r) {
      if (targets[r] == kIgnore) continue;
      const Values<double> p = log_p(r), q = log_p(r + half);
      double forth = 0, back = 0;
      for (size_t v = 0; v < n; ++v) forth += std::exp(p[v]) * (p[v] - q[v]), back += std::exp(q[v]) * (q[v] - p[v]);
      each.push_back((forth + back) / 2);
      for (size_t v = 0; gradient && v < n; ++v) {
        const double a = std::exp(p[v]), b = std::exp(q[v]), d = p[v] - q[v];
        (*gradient)[r * n + v] += r_drop / 2 * (a - b + a * (d - forth));
        (*gradient)[(r + half) * n + v] += r_drop / 2 * (b - a + b * (-d - back));
      }
    }
    return each;
  }
};

template <class T>
struct FusedResult {
  LossSum sum;
  Values<T> dx, dw, dbias;
};

template <class T>
FusedResult<T> run(const Fused& f, bool with_bias, T scale, Executor& ex = test::one_thread()) {
  const Values<T> x(f.x.begin(), f.x.end()), w(f.w.begin(), f.w.end()), bias(f.bias.begin(), f.bias.end());
  FusedResult<T> r{
      {}, Values<T>(x.size(), static_cast<T>(NAN)), Values<T>(w.size(), T{1}), Values<T>(bias.size(), T{1})};
  r.sum = linear_cross_entropy<T>(x.data(), w.data(), with_bias ? bias.data() : nullptr, f.targets.data(), kIgnore, 0.1,
                                  f.r_drop, r.dx.data(), r.dw.data(), with_bias ? r.dbias.data() : nullptr, scale,
                                  f.rows, f.in, f.vocab, ex);
  return r;
}

TEST(LinearCrossEntropy, AgreesWithLoopsAndDifferences) {
  for (const bool with_bias : {false, true})
    for (const int64_t rows : {0, 1, 9}) {
      Fused f{rows, 5, 11};
      FusedResult<double> r = run<double>(f, with_bias, 0.5);
      expect_near(r.sum, f.loss(with_bias), 1e-13);
      const auto loss = [&] { return 0.5 * f.loss(with_bias).loss; };
      test::expect_gradient(r.dx, f.x, loss);
      for (double& d : r.dw) d -= 1;  // added to what was there
      test::expect_gradient(r.dw, f.w, loss);
      for (double& d : r.dbias) d -= 1;
      if (with_bias) test::expect_gradient(r.dbias, f.bias, loss);
    }
}

TEST(LinearCrossEntropy, ManyChunksAgreeWithTheUnfused) {
  const Fused f{3500, 20, 37};
  const FusedResult<double> r = run<double>(f, true, 1);
  expect_near(r.sum, f.loss(true), 1e-12);
  const FusedResult<float> narrow = run<float>(f, true, 1);
  expect_near(narrow.sum, f.loss(true), 1e-5);
  test::expect_near(narrow.dx, r.dx, 1e-5);
  test::expect_near(narrow.dw, r.dw, 1e-5);
  test::expect_near(narrow.dbias, r.dbias, 1e-5);
}

// Gradients of the sum of losses, from logits in double.
FusedResult<double> unfused(const Fused& f) {
  FusedResult<double> r{
      {}, Values<double>(f.x.size()), Values<double>(f.w.size(), 1), Values<double>(f.bias.size(), 1)};
  Values<double> logits(static_cast<size_t>(f.rows * f.vocab)), d(logits.size());
  LogSums<double> log_sums(static_cast<size_t>(f.rows));
  linear_forward<double>(f.x.data(), f.w.data(), f.bias.data(), logits.data(), f.rows, f.in, f.vocab,
                         test::one_thread());
  r.sum = cross_entropy_forward<double>(logits.data(), f.targets.data(), kIgnore, 0.1, log_sums.data(), f.rows, f.vocab,
                                        test::one_thread());
  cross_entropy_backward<double>(logits.data(), f.targets.data(), kIgnore, 0.1, log_sums.data(), 1, d.data(), f.rows,
                                 f.vocab, test::one_thread());
  for (const double divergence : f.divergences(true, &d)) r.sum.loss += f.r_drop * divergence;
  linear_backward<double>(d.data(), f.x.data(), f.w.data(), r.dx.data(), r.dw.data(), r.dbias.data(), f.rows, f.in,
                          f.vocab, test::one_thread());
  return r;
}

TEST(LinearCrossEntropy, SeveralBlocksOfClassesAgreeOnEachTarget) {
  // Maxima that rise from block to block, and a block that nothing may be chosen from.
  Fused rising{230, 19, 1100}, barred{30, 19, 900};
  for (int64_t v = 0; v < rising.vocab; ++v) rising.bias[static_cast<size_t>(v)] = 0.05 * static_cast<double>(v);
  for (int64_t v = 256; v < 512; ++v) barred.bias[static_cast<size_t>(v)] = -INFINITY;
  for (int32_t& t : barred.targets) t = t == kIgnore ? t : t % 256;
  test::on_each_target([&] {
    for (const Fused* f : {&rising, &barred}) {
      const FusedResult<double> want = unfused(*f);
      if (f == &rising) {  // label smoothing makes the loss of a barred class infinite
        const FusedResult<double> got = run<double>(*f, true, 1);
        expect_near(got.sum, want.sum, 1e-13);
        test::expect_near(got.dx, want.dx, 1e-13);
        test::expect_near(got.dw, want.dw, 1e-13);
        test::expect_near(got.dbias, want.dbias, 1e-13);
      }
      const FusedResult<float> narrow = run<float>(*f, true, 1);
      EXPECT_NEAR(narrow.sum.nll, want.sum.nll, 1e-5 * (1 + want.sum.nll));
      test::expect_near(narrow.dx, want.dx, 1e-5);
      test::expect_near(narrow.dw, want.dw, 1e-5);
      test::expect_near(narrow.dbias, want.dbias, 1e-5);
    }
  });
}

TEST(LinearCrossEntropy, NullGradientsAreSkipped) {
  const Fused f{250, 7, 530};
  const FusedResult<double> all = run<double>(f, true, 1);
  Values<double> dx(f.x.size()), dw(f.w.size(), 1), dbias(f.bias.size(), 1);
  const auto call = [&](double* x, double* w, double* bias) {
    return linear_cross_entropy<double>(f.x.data(), f.w.data(), f.bias.data(), f.targets.data(), kIgnore, 0.1, 0, x, w,
                                        bias, 1, f.rows, f.in, f.vocab, test::one_thread());
  };
  EXPECT_EQ(call(dx.data(), nullptr, nullptr).loss, all.sum.loss);
  call(nullptr, dw.data(), nullptr);
  call(nullptr, nullptr, dbias.data());
  EXPECT_EQ(dx, all.dx);
  EXPECT_EQ(dw, all.dw);
  EXPECT_EQ(dbias, all.dbias);
}

TEST(LinearCrossEntropy, TwinsAgreeWithLoopsAndDifferences) {
  for (const bool with_bias : {false, true})
    for (const int64_t rows : {0, 2, 10}) {
      Fused f = Fused::twins(rows, 5, 11, 3);
      FusedResult<double> r = run<double>(f, with_bias, 0.5);
      expect_near(r.sum, f.loss(with_bias), 1e-13);
      const auto loss = [&] { return 0.5 * f.loss(with_bias).loss; };
      test::expect_gradient(r.dx, f.x, loss);
      for (double& d : r.dw) d -= 1;
      test::expect_gradient(r.dw, f.w, loss);
      for (double& d : r.dbias) d -= 1;
      if (with_bias) test::expect_gradient(r.dbias, f.bias, loss);
    }
}

TEST(LinearCrossEntropy, TwinsInSeveralBlocksAndChunksOnEachTarget) {
  Fused f = Fused::twins(2000, 19, 700, 5);
  for (int64_t v = 0; v < f.vocab; ++v) f.bias[static_cast<size_t>(v)] = 0.05 * static_cast<double>(v);
  const FusedResult<double> want = unfused(f);
  EXPECT_GT(want.sum.loss, 1.5 * expected(f.logits(true), f.targets, 0.1, f.vocab).loss);
  test::on_each_target([&] {
    const FusedResult<double> got = run<double>(f, true, 1);
    expect_near(got.sum, want.sum, 1e-13);
    test::expect_near(got.dx, want.dx, 1e-12);
    test::expect_near(got.dw, want.dw, 1e-12);
    test::expect_near(got.dbias, want.dbias, 1e-12);
    const FusedResult<float> narrow = run<float>(f, true, 1);
    expect_near(narrow.sum, want.sum, 1e-5);
    test::expect_near(narrow.dx, want.dx, 2e-5);
    test::expect_near(narrow.dw, want.dw, 2e-5);
    test::expect_near(narrow.dbias, want.dbias, 2e-5);
  });
}

TEST(LinearCrossEntropy, TwinsThatAgreeAddNothingAndOnesFarApartStayFinite) {
  Fused same = Fused::twins(60, 7, 300, 5);
  std::copy_n(same.x.begin(), 30 * 7, same.x.begin() + 30 * 7);
  // A class that no row may choose takes no part in the divergence either.
  same.bias[200] = -INFINITY;
  const FusedResult<float> got = run<float>(same, true, 1);
  same.r_drop = 0;
  const FusedResult<float> without = run<float>(same, true, 1);
  EXPECT_NEAR(got.sum.nll, without.sum.nll, 1e-9 * without.sum.nll);  // rows are added in another order
  test::expect_near(test::widen(got.dx), test::widen(without.dx), 1e-6);

  Fused apart = Fused::twins(60, 7, 300, 5);
  for (double& x : apart.x) x *= 40;
  const FusedResult<float> wide = run<float>(apart, true, 1);
  expect_near(wide.sum, apart.loss(true), 1e-5);
  for (const float d : wide.dx) EXPECT_TRUE(std::isfinite(d));
}

TEST(LinearCrossEntropy, ANanMakesTheLossNan) {
  Fused f{3, 5, 300};
  f.targets = {1, 2, 3};
  f.x[7] = NAN;
  EXPECT_TRUE(std::isnan(run<float>(f, true, 1).sum.loss));
}

TEST(LinearCrossEntropy, NoRowCounts) {
  Fused f{4, 5, 11};
  f.targets = Targets(4, kIgnore);
  const FusedResult<double> r = run<double>(f, true, 1);
  EXPECT_EQ(r.sum.loss, 0);
  EXPECT_EQ(r.sum.count, 0);
  EXPECT_EQ(r.dx, Values<double>(r.dx.size(), 0));
  EXPECT_EQ(r.dw, Values<double>(r.dw.size(), 1));
}

TEST(LinearCrossEntropy, WithoutGradientsTheLossIsTheSame) {
  const Fused f{700, 20, 37};
  const LossSum sum =
      linear_cross_entropy<double>(f.x.data(), f.w.data(), f.bias.data(), f.targets.data(), kIgnore, 0.1, 0, nullptr,
                                   nullptr, nullptr, 1, f.rows, f.in, f.vocab, test::one_thread());
  EXPECT_EQ(sum.loss, run<double>(f, true, 1).sum.loss);
}

TEST(LossThreads, SameBits) {
  const int64_t rows = 700, vocab = 333;
  const Values<float> logits = test::normals<float>(rows * vocab, 1);
  const Targets targets = targets_of(rows, vocab, 5);
  test::expect_same_bits([&](Executor& ex) {
    LogSums<float> log_sums;
    const LossSum sum = forward(logits, targets, 0.1, vocab, &log_sums, ex);
    return Values<double>{sum.loss, sum.nll};
  });
  const Fused f{1700, 130, 300};  // two chunks, two blocks of classes
  test::expect_same_bits([&](Executor& ex) {
    FusedResult<float> r = run<float>(f, true, 1, ex);
    r.dx.insert(r.dx.end(), r.dw.begin(), r.dw.end());
    r.dx.insert(r.dx.end(), r.dbias.begin(), r.dbias.end());
    r.dx.push_back(static_cast<float>(r.sum.loss));
    return r.dx;
  });
  const Fused twins = Fused::twins(2200, 70, 300, 5);
  test::expect_same_bits([&](Executor& ex) {
    FusedResult<float> r = run<float>(twins, true, 1, ex);
    r.dx.insert(r.dx.end(), r.dw.begin(), r.dw.end());
    r.dx.insert(r.dx.end(), r.dbias.begin(), r.dbias.end());
    r.dx.push_back(static_cast<float>(r.sum.loss));
    return r.dx;
  });
}

// PyTorch's definition with weights of classes, from rows that are logarithms of probabilities.
double weighted(const Values<double>& log_p, const Targets& targets, const Values<double>& weight, double smoothing,
                const Values<double>& dlosses) {
  const size_t vocab = weight.size();
  double sum = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == kIgnore) continue;
    const auto t = static_cast<size_t>(targets[r]);
    double uniform = 0;
    for (size_t j = 0; j < vocab; ++j) uniform -= weight[j] * log_p[r * vocab + j] / static_cast<double>(vocab);
    sum += dlosses[r] * ((smoothing - 1) * weight[t] * log_p[r * vocab + t] + smoothing * uniform);
  }
  return sum;
}

TEST(Nll, AgreesWithLoopsAndDifferences) {
  for (const int64_t vocab : {1, 2, 9})
    for (const int64_t rows : {0, 1, 5})
      for (const double smoothing : {0.0, 0.1, 1.0})
        for (const bool with_weight : {false, true}) {
          SCOPED_TRACE(testing::Message() << rows << " x " << vocab << ", smoothing " << smoothing);
          Values<double> log_p = test::normals<double>(rows * vocab, 1, 3);
          const Targets targets = targets_of(rows, vocab, 3);
          const auto n = static_cast<size_t>(rows);
          const Values<double> drawn = test::normals<double>(vocab, 4), dlosses = test::normals<double>(rows, 5);
          const Values<double> weight = with_weight ? drawn : Values<double>(drawn.size(), 1);
          Values<double> losses(n, NAN), d(log_p.size(), NAN);
          const double* const given = with_weight ? weight.data() : nullptr;
          const double counted = nll_forward<double>(log_p.data(), targets.data(), given, kIgnore, smoothing,
                                                     losses.data(), rows, vocab, test::one_thread());
          double total = 0;
          for (size_t r = 0; r < n; ++r) {
            Values<double> only(n, 0);
            only[r] = 1;
            EXPECT_NEAR(losses[r], weighted(log_p, targets, weight, smoothing, only), 1e-13);
            if (targets[r] != kIgnore) total += weight[static_cast<size_t>(targets[r])];
          }
          EXPECT_NEAR(counted, total, 1e-13);
          nll_backward<double>(dlosses.data(), 1, targets.data(), given, kIgnore, smoothing, d.data(), rows, vocab,
                               test::one_thread());
          test::expect_gradient(d, log_p, [&] { return weighted(log_p, targets, weight, smoothing, dlosses); });
          const double one = 0.7;  // the same factor for all rows
          nll_backward<double>(&one, 0, targets.data(), given, kIgnore, smoothing, d.data(), rows, vocab,
                               test::one_thread());
          const Values<double> all(n, one);
          test::expect_gradient(d, log_p, [&] { return weighted(log_p, targets, weight, smoothing, all); });
        }
}

}  // namespace
}  // namespace heed
