#include "kernels/activation.h"

#include <numbers>

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

// From the definitions, in long double.
double exact(Activation kind, double at) {
  const long double x = at;
  switch (kind) {
    case Activation::relu:
      return at > 0 ? at : 0;
    case Activation::gelu:
      return static_cast<double>(x * std::erfc(-x / std::numbers::sqrt2_v<long double>) / 2);
    case Activation::gelu_tanh:
      return static_cast<double>(
          x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x))));
    case Activation::silu:
      return static_cast<double>(x / (1 + std::exp(-x)));
    case Activation::tanh:
      return static_cast<double>(std::tanh(x));
    case Activation::relu_squared:
      return at > 0 ? at * at : 0;
    case Activation::quick_gelu:
      return static_cast<double>(x / (1 + std::exp(-1.702L * x)));
    case Activation::gelu_10:
      return std::min(exact(Activation::gelu, at), 10.0);
  }
  return NAN;
}

template <class T>
Values<T> forward(Activation kind, const Values<T>& x, Executor& ex = test::one_thread()) {
  Values<T> y(x.size(), static_cast<T>(NAN));
  activation_forward<T>(kind, x.data(), y.data(), static_cast<int64_t>(x.size()), ex);
  return y;
}

template <class T>
Values<T> backward(Activation kind, const Values<T>& dy, const Values<T>& x, Executor& ex = test::one_thread()) {
  Values<T> dx(x.size(), static_cast<T>(NAN));
  activation_backward<T>(kind, dy.data(), x.data(), dx.data(), static_cast<int64_t>(x.size()), ex);
  return dx;
}

class ActivationTest : public testing::TestWithParam<Activation> {};

TEST_P(ActivationTest, AgreesWithTheDefinition) {
  test::on_each_target([&] {
    for (const int64_t n : test::kSizes) {
      const auto check = [&](auto tag, double tolerance) {
        using T = decltype(tag);
        const Values<T> x = test::normals<T>(n, 1, 3), y = forward(GetParam(), x);
        for (size_t i = 0; i < x.size(); ++i) {
          const double size = 1 + std::abs(static_cast<double>(x[i]));
          EXPECT_NEAR(static_cast<double>(y[i]), exact(GetParam(), static_cast<double>(x[i])),
                      tolerance * (GetParam() == Activation::relu_squared ? size * size : size))
              << "x " << x[i];
        }
      };
      check(float{}, 2e-7);
      check(double{}, 4e-16);
    }
  });
}

TEST_P(ActivationTest, FarFromZeroIsTheLineOrZero) {
  test::on_each_target([&] {
    for (const double far : {15.0, 30.0, 90.0, 120.0, 1e4, 1e18}) {
      const auto check = [&](auto tag) {
        using T = decltype(tag);
        const T x = static_cast<T>(far);
        const Values<T> y = forward<T>(GetParam(), {x, -x, 0}), d = backward<T>(GetParam(), {1, 1, 1}, {x, -x, 0});
        const Activation kind = GetParam();
        const bool squared = kind == Activation::relu_squared, tanh = kind == Activation::tanh;
        const bool bounded = tanh || kind == Activation::gelu_10;  // above, too
        EXPECT_NEAR(tanh ? y[0] : bounded ? y[0] / 10 : squared ? y[0] / x / x : y[0] / x, 1, 1e-6);
        EXPECT_NEAR(y[1], tanh ? -1 : 0, 1e-5) << "at " << -x;
        EXPECT_EQ(y[2], 0);
        EXPECT_NEAR(squared ? d[0] / x / 2 : d[0], bounded ? 0 : 1, 1e-5) << "at " << x;
        EXPECT_NEAR(d[1], 0, 1e-5) << "at " << -x;
      };
      check(float{});
      check(double{});
    }
  });
}

TEST_P(ActivationTest, NanStaysNan) {
  test::on_each_target([&] {
    const Values<float> x = {1, NAN, -1, 2, 3};
    EXPECT_TRUE(std::isnan(forward(GetParam(), x)[1]) || GetParam() == Activation::relu);
    EXPECT_TRUE(std::isnan(backward(GetParam(), Values<float>(5, NAN), Values<float>(5, 1))[1]));
    EXPECT_FALSE(std::isnan(forward(GetParam(), x)[2]));
  });
}

TEST_P(ActivationTest, BackwardAgreesWithDifferences) {
  test::on_each_target([&] {
    Values<double> x = test::normals<double>(133, 2, 2);
    for (double& v : x)
      if (std::abs(v) < 0.01) v = 0.5;  // relu's corner
    const Values<double> dy = test::normals<double>(133, 3);
    const Values<double> dx = backward(GetParam(), dy, x);
    test::expect_gradient(dx, x, [&] {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += dy[i] * exact(GetParam(), x[i]);
      return sum;
    });
    Values<float> narrow_x(x.begin(), x.end()), narrow_dy(dy.begin(), dy.end());
    test::expect_near(backward(GetParam(), narrow_dy, narrow_x),
                      backward(GetParam(), test::widen(narrow_dy), test::widen(narrow_x)), 1e-6);
  });
}

std::string name_of_kind(const testing::TestParamInfo<Activation>& kind) {
  const char* const names[] = {"Relu", "Gelu", "GeluTanh", "Silu", "Tanh", "ReluSquared", "QuickGelu", "Gelu10"};
  return names[static_cast<int>(kind.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, ActivationTest,
                         testing::Values(Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                         Activation::tanh, Activation::relu_squared, Activation::quick_gelu,
                                         Activation::gelu_10),
                         name_of_kind);

double gated(Activation kind, const Values<double>& gate_up, const Values<double>& dy, int64_t rows, int64_t width,
             double alpha, Values<double>* y) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < width; ++j) {
      const size_t gate = static_cast<size_t>(r * 2 * width + j), at = static_cast<size_t>(r * width + j);
      const double v = exact(kind, alpha * gate_up[gate]) / alpha * gate_up[gate + static_cast<size_t>(width)];
      if (y) (*y)[at] = v;
      sum += dy[at] * v;
    }
  return sum;
}

TEST_P(ActivationTest, AsAGateAgreesWithLoopsAndDifferences) {
  const Activation kind = GetParam();
  test::on_each_target([&] {
    for (const auto& [width, alpha] : {std::pair<int64_t, double>{1, 1.0}, {5, 1.702}, {33, 1.0}, {33, -0.5}}) {
      const int64_t rows = 3;
      Values<double> x = test::normals<double>(rows * 2 * width, 1, 2);
      const Values<double> dy = test::normals<double>(rows * width, 2);
      Values<double> y(dy.size()), expected(dy.size()), dx(x.size(), NAN);
      gated_forward<double>(kind, x.data(), y.data(), rows, width, test::one_thread(), alpha);
      gated(kind, x, dy, rows, width, alpha, &expected);
      test::expect_near(y, expected, 1e-15);
      gated_backward<double>(kind, dy.data(), x.data(), dx.data(), rows, width, test::one_thread(), alpha);
      test::expect_gradient(dx, x, [&, n = width, a = alpha] { return gated(kind, x, dy, rows, n, a, nullptr); });

      const Values<float> fx(x.begin(), x.end()), fdy(dy.begin(), dy.end());
      Values<float> fy(y.size()), fdx(x.size());
      gated_forward<float>(kind, fx.data(), fy.data(), rows, width, test::one_thread(), static_cast<float>(alpha));
      gated_backward<float>(kind, fdy.data(), fx.data(), fdx.data(), rows, width, test::one_thread(),
                            static_cast<float>(alpha));
      test::expect_near(fy, y, 1e-6);
      test::expect_near(fdx, dx, 1e-6);
    }
  });
}

TEST(ActivationThreads, SameBits) {
  const Values<float> x = test::normals<float>(100'003, 1), dy = test::normals<float>(100'003, 2);
  for (const Activation kind :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
    test::expect_same_bits([&](Executor& ex) { return forward(kind, x, ex); });
    test::expect_same_bits([&](Executor& ex) { return backward(kind, dy, x, ex); });
  }
  test::expect_same_bits([&](Executor& ex) {
    Values<float> y(50'000);
    gated_forward<float>(Activation::silu, x.data(), y.data(), 500, 100, ex);
    return y;
  });
}

}  // namespace
}  // namespace heed
