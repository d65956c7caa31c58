#include "kernels/norm.h"

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

// Rows away from 0, so that a variance computed as E[x^2] - E[x]^2 would lose digits.
template <class T>
struct Norm {
  int64_t rows, width;
  bool centred;  // LayerNorm, else RMSNorm
  double offset = 0.5;
  T epsilon = static_cast<T>(1e-5);
  Values<T> x = shifted(test::normals<T>(rows * width, 1), offset), gamma = test::normals<T>(width, 2),
            beta = test::normals<T>(width, 3), dy = test::normals<T>(rows * width, 4);

  static Values<T> shifted(Values<T> v, double by) {
    for (T& e : v) e += static_cast<T>(by);
    return v;
  }
  struct Result {
    Values<T> y, mean, rstd;
  };
  Result forward(bool affine, Executor& ex) const {
    Result r{Values<T>(x.size()), Values<T>(static_cast<size_t>(rows)), Values<T>(static_cast<size_t>(rows))};
    const T* g = affine ? gamma.data() : nullptr;
    if (centred)
      layer_norm_forward<T>(x.data(), g, affine ? beta.data() : nullptr, epsilon, r.y.data(), r.mean.data(),
                            r.rstd.data(), rows, width, ex);
    else
      rms_norm_forward<T>(x.data(), g, epsilon, r.y.data(), r.rstd.data(), rows, width, ex);
    return r;
  }
  Values<double> expected(bool affine) const {
    Values<double> y(x.size());
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, square = 0;
      for (int64_t j = 0; j < width; ++j) mean += double{x[r * width + j]} / static_cast<double>(width);
      if (!centred) mean = 0;
      for (int64_t j = 0; j < width; ++j)
        square += std::pow(double{x[r * width + j]} - mean, 2) / static_cast<double>(width);
      for (int64_t j = 0; j < width; ++j) {
        double h = (double{x[r * width + j]} - mean) / std::sqrt(square + double{epsilon});
        if (affine) h = h * double{gamma[j]} + (centred ? double{beta[j]} : 0);
        y[static_cast<size_t>(r * width + j)] = h;
      }
    }
    return y;
  }
  // dx, dgamma, dbeta one after the other; the parameters' start at 1, since they are added to.
  Values<T> backward(bool affine, Executor& ex) const {
    const Result r = forward(affine, ex);
    Values<T> dx(x.size(), static_cast<T>(NAN)), dgamma(gamma.size(), T{1}), dbeta(beta.size(), T{1});
    const T* g = affine ? gamma.data() : nullptr;
    T* dg = affine ? dgamma.data() : nullptr;
    if (centred)
      layer_norm_backward<T>(dy.data(), x.data(), g, r.mean.data(), r.rstd.data(), dx.data(), dg,
                             affine ? dbeta.data() : nullptr, rows, width, ex);
    else
      rms_norm_backward<T>(dy.data(), x.data(), g, r.rstd.data(), dx.data(), dg, rows, width, ex);
    dx.insert(dx.end(), dgamma.begin(), dgamma.end());
    dx.insert(dx.end(), dbeta.begin(), dbeta.end());
    return dx;
  }
};

class NormTest : public testing::TestWithParam<bool> {};

TEST_P(NormTest, ForwardAgreesWithLoops) {
  test::on_each_target([&] {
    for (const int64_t width : {1, 2, 5, 16, 31, 257})
      for (const int64_t rows : {0, 1, 3, 70})
        for (const bool affine : {false, true}) {
          SCOPED_TRACE(testing::Message() << rows << " x " << width);
          const Norm<float> f{rows, width, GetParam()};
          test::expect_near(f.forward(affine, test::one_thread()).y, f.expected(affine), 2e-5);
          const Norm<double> d{rows, width, GetParam()};
          test::expect_near(d.forward(affine, test::one_thread()).y, d.expected(affine), 1e-13);
        }
  });
}

TEST_P(NormTest, LargeMeanKeepsItsDigits) {
  const Norm<float> n{4, 256, GetParam(), 1000};
  test::expect_near(n.forward(false, test::one_thread()).y, n.expected(false), 1e-4);
}

TEST_P(NormTest, BackwardAgreesWithDifferences) {
  test::on_each_target([&] {
    for (const int64_t width : {1, 7, 20})
      for (const bool affine : {false, true}) {
        SCOPED_TRACE(testing::Message() << "width " << width);
        Norm<double> n{3, width, GetParam(), 0.3};
        n.epsilon = 1e-2;  // so that a row of one element has a slope
        const Values<double> all = n.backward(affine, test::one_thread());
        const auto loss = [&] { return test::dot(n.expected(affine), n.dy); };
        const auto part = [&](size_t begin, size_t count, double less) {
          Values<double> p(all.begin() + static_cast<int64_t>(begin),
                           all.begin() + static_cast<int64_t>(begin + count));
          for (double& v : p) v -= less;
          return p;
        };
        const size_t size = n.x.size(), w = static_cast<size_t>(width);
        test::expect_gradient(part(0, size, 0), n.x, loss);
        if (!affine) continue;
        test::expect_gradient(part(size, w, 1), n.gamma, loss);
        if (GetParam()) test::expect_gradient(part(size + w, w, 1), n.beta, loss);
      }
  });
}

TEST_P(NormTest, FloatBackwardAgreesWithDouble) {
  const Norm<float> f{70, 133, GetParam()};
  Norm<double> d{70, 133, GetParam()};
  d.x = test::widen(f.x), d.gamma = test::widen(f.gamma), d.beta = test::widen(f.beta), d.dy = test::widen(f.dy);
  d.epsilon = f.epsilon;
  test::expect_near(f.backward(true, test::one_thread()), d.backward(true, test::one_thread()), 1e-5);
}

TEST_P(NormTest, NullGradientsAreSkipped) {
  const Norm<double> n{5, 9, GetParam()};
  const auto r = n.forward(true, test::one_thread());
  Values<double> dgamma(9), whole = n.backward(true, test::one_thread());
  if (GetParam())
    layer_norm_backward<double>(n.dy.data(), n.x.data(), n.gamma.data(), r.mean.data(), r.rstd.data(), nullptr,
                                dgamma.data(), nullptr, 5, 9, test::one_thread());
  else
    rms_norm_backward<double>(n.dy.data(), n.x.data(), n.gamma.data(), r.rstd.data(), nullptr, dgamma.data(), 5, 9,
                              test::one_thread());
  for (size_t j = 0; j < 9; ++j) EXPECT_NEAR(dgamma[j] + 1, whole[45 + j], 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Norm, NormTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "LayerNorm" : "RmsNorm"; });

TEST(NormThreads, SameBits) {
  for (const bool centred : {false, true}) {
    const Norm<float> n{1000, 130, centred};
    test::expect_same_bits([&](Executor& ex) { return n.forward(true, ex).y; });
    test::expect_same_bits([&](Executor& ex) { return n.backward(true, ex); });
  }
}

}  // namespace
}  // namespace heed
