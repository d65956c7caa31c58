#include "kernels/softmax.h"

#include <limits>

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// In double; the logarithm when `log`.
Values<double> expected(const Values<double>& x, int64_t rows, int64_t width, bool log) {
  Values<double> y(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = x.begin() + r * width;
    const double top = *std::max_element(row, row + width);
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) sum += std::exp(row[j] - top);
    for (int64_t j = 0; j < width; ++j)
      y[static_cast<size_t>(r * width + j)] = log ? row[j] - top - std::log(sum) : std::exp(row[j] - top) / sum;
  }
  return y;
}

template <class T>
Values<T> forward(bool log, const Values<T>& x, int64_t rows, int64_t width, Executor& ex = test::one_thread()) {
  Values<T> y(x.size(), static_cast<T>(NAN));
  (log ? log_softmax_forward<T> : softmax_forward<T>)(x.data(), y.data(), rows, width, ex);
  return y;
}

template <class T>
Values<T> backward(bool log, const Values<T>& dy, const Values<T>& y, int64_t rows, int64_t width,
                   Executor& ex = test::one_thread()) {
  Values<T> dx(y.size(), static_cast<T>(NAN));
  (log ? log_softmax_backward<T> : softmax_backward<T>)(dy.data(), y.data(), dx.data(), rows, width, ex);
  return dx;
}

class SoftmaxTest : public testing::TestWithParam<bool> {};

TEST_P(SoftmaxTest, AgreesWithLoops) {
  test::on_each_target([&] {
    for (const int64_t width : {1, 2, 7, 16, 33, 257})
      for (const int64_t rows : {0, 1, 5}) {
        const Values<double> x = test::normals<double>(rows * width, 1, 4);
        test::expect_near(forward(GetParam(), x, rows, width), expected(x, rows, width, GetParam()), 4e-15);
        const Values<float> narrow(x.begin(), x.end());
        test::expect_near(forward(GetParam(), narrow, rows, width),
                          expected(test::widen(narrow), rows, width, GetParam()), 1e-6);
      }
  });
}

TEST_P(SoftmaxTest, BackwardAgreesWithDifferences) {
  test::on_each_target([&] {
    for (const int64_t width : {1, 3, 21}) {
      Values<double> x = test::normals<double>(2 * width, 1);
      const Values<double> dy = test::normals<double>(2 * width, 2);
      const Values<double> dx = backward(GetParam(), dy, forward(GetParam(), x, 2, width), 2, width);
      test::expect_gradient(dx, x, [&] { return test::dot(expected(x, 2, width, GetParam()), dy); });
      const Values<float> fx(x.begin(), x.end()), fdy(dy.begin(), dy.end());
      test::expect_near(backward(GetParam(), fdy, forward(GetParam(), fx, 2, width), 2, width), dx, 1e-6);
    }
  });
}

TEST_P(SoftmaxTest, LargeScoresDoNotOverflow) {
  test::on_each_target([&] {
    const Values<float> y = forward(GetParam(), Values<float>{1e4f, 1e4f, -1e30f, -1e4f}, 1, 4);
    EXPECT_NEAR(y[0], GetParam() ? std::log(0.5) : 0.5, 1e-7);
    EXPECT_EQ(y[2], GetParam() ? -1e30f : 0);
  });
}

TEST_P(SoftmaxTest, MinusInfinityHidesAnEntry) {
  test::on_each_target([&] {
    for (const int64_t width : {3, 40}) {
      Values<double> x = test::normals<double>(width, 1);
      x[1] = -kInfinity;
      const Values<double> y = forward(GetParam(), x, 1, width);
      EXPECT_EQ(y[1], GetParam() ? -kInfinity : 0);
      test::expect_near(Values<double>{y[0], y[2]},
                        {expected(x, 1, width, GetParam())[0], expected(x, 1, width, GetParam())[2]}, 1e-14);
    }
  });
}

TEST_P(SoftmaxTest, NanReachesItsRowAlone) {
  test::on_each_target([&] {
    for (const int64_t width : {3, 40})
      for (const int64_t at : {int64_t{0}, int64_t{1}, width - 1}) {
        Values<float> x = test::normals<float>(2 * width, 1);
        x[static_cast<size_t>(at)] = NAN;
        const Values<float> y = forward(GetParam(), x, 2, width);
        for (int64_t j = 0; j < 2 * width; ++j) EXPECT_EQ(std::isnan(y[static_cast<size_t>(j)]), j < width) << j;
      }
  });
}

TEST_P(SoftmaxTest, InPlaceIsTheSame) {
  Values<float> x = test::normals<float>(300, 1);
  const Values<float> y = forward(GetParam(), x, 3, 100);
  (GetParam() ? log_softmax_forward<float> : softmax_forward<float>)(x.data(), x.data(), 3, 100, test::one_thread());
  EXPECT_EQ(x, y);
}

INSTANTIATE_TEST_SUITE_P(Softmax, SoftmaxTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Log" : "Plain"; });

TEST(SoftmaxThreads, SameBits) {
  const Values<float> x = test::normals<float>(1000 * 77, 1);
  for (const bool log : {false, true}) {
    test::expect_same_bits([&](Executor& ex) { return forward(log, x, 1000, 77, ex); });
    test::expect_same_bits([&](Executor& ex) { return backward(log, x, x, 1000, 77, ex); });
  }
}

}  // namespace
}  // namespace heed
