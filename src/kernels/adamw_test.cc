#include "kernels/adamw.h"

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

constexpr AdamWOptions kOptions{
    .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .weight_decay = 0.1};

// Algorithm 2 of Loshchilov and Hutter, line by line, with the schedule in the learning rate.
struct Reference {
  Values<double> p, m, v;
  void step(const Values<double>& gradients, double t, const AdamWOptions& o) {
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradients[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(o.beta1, t)), v_hat = v[i] / (1 - std::pow(o.beta2, t));
      p[i] -= o.learning_rate * (m_hat / (std::sqrt(v_hat) + o.epsilon) + o.weight_decay * p[i]);
    }
  }
};

template <class T>
void check(int64_t n, double tolerance) {
  Values<T> p = test::normals<T>(n, 1), m(p.size()), v(p.size());
  Reference r{test::widen(p), Values<double>(p.size()), Values<double>(p.size())};
  for (int64_t step = 1; step <= 5; ++step) {
    const Values<T> g = test::normals<T>(n, 10 + static_cast<uint32_t>(step));
    adamw_step<T>(p.data(), g.data(), m.data(), v.data(), n, step, kOptions, T{0.5}, test::one_thread());
    Values<double> scaled = test::widen(g);
    for (double& value : scaled) value *= 0.5;
    r.step(scaled, static_cast<double>(step), kOptions);
  }
  test::expect_near(p, r.p, tolerance);
  test::expect_near(m, r.m, tolerance);
  test::expect_near(v, r.v, tolerance);
}

TEST(AdamW, AgreesWithThePaper) {
  test::on_each_target([&] {
    for (const int64_t n : {0, 1, 7, 64, 133, 20'003}) {
      check<float>(n, 1e-6);
      check<double>(n, 1e-14);
    }
  });
}

TEST(AdamW, TheFirstStepHasTheLengthOfTheLearningRate) {
  // m / sqrt(v) is the sign of the gradient at step 1, whatever its size.
  AdamWOptions options = kOptions;
  options.weight_decay = 0;
  Values<double> p = {1, 1, 1}, m(3), v(3);
  const Values<double> g = {1e-3, -50, 0};
  adamw_step<double>(p.data(), g.data(), m.data(), v.data(), 3, 1, options, 1, test::one_thread());
  test::expect_near(p, {0.99, 1.01, 1}, 1e-6);
}

TEST(AdamW, DecayIsApartFromTheGradient) {
  Values<double> p = {2}, m(1), v(1);
  const Values<double> g = {0};
  adamw_step<double>(p.data(), g.data(), m.data(), v.data(), 1, 1, kOptions, 1, test::one_thread());
  EXPECT_NEAR(p[0], 2 * (1 - 0.01 * 0.1), 1e-15);
  EXPECT_EQ(m[0], 0);
}

TEST(AdamWThreads, SameBits) {
  const int64_t n = 100'003;
  const Values<float> g = test::normals<float>(n, 2);
  test::expect_same_bits([&](Executor& ex) {
    Values<float> p = test::normals<float>(n, 1), m(p.size()), v(p.size());
    for (int64_t step = 1; step <= 2; ++step)
      adamw_step<float>(p.data(), g.data(), m.data(), v.data(), n, step, kOptions, 1, ex);
    return p;
  });
}

}  // namespace
}  // namespace heed
