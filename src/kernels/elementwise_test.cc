#include "kernels/elementwise.h"

#include <limits>

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

TEST(Elementwise, AgreesWithLoops) {
  test::on_each_target([&] {
    for (const int64_t n : {0, 1, 7, 133, 40'003}) {
      const Values<float> a = test::normals<float>(n, 1), b = test::normals<float>(n, 2);
      Values<float> sum(a.size()), product(a.size()), scaled(a.size()), total = b;
      add(a.data(), b.data(), sum.data(), n, test::one_thread());
      multiply(a.data(), b.data(), product.data(), n, test::one_thread());
      scale(a.data(), 1.5f, scaled.data(), n, test::one_thread());
      accumulate(a.data(), total.data(), n, test::one_thread());
      double squares = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(sum[i], a[i] + b[i]);
        ASSERT_EQ(product[i], a[i] * b[i]);
        ASSERT_EQ(scaled[i], a[i] * 1.5f);
        ASSERT_EQ(total[i], b[i] + a[i]);
        squares += double{a[i]} * double{a[i]};
      }
      EXPECT_NEAR(sum_of_squares(a.data(), n, test::one_thread()), squares, 1e-13 * squares);
    }
  });
}

TEST(Elementwise, SumOfSquaresIsInDouble) {
  // 2^24 + 1 ones would stop growing at 2^24 in float; and 1e30 squared is past float's range.
  const Values<float> ones((1 << 24) + 1, 1.0f);
  EXPECT_EQ(sum_of_squares(ones.data(), static_cast<int64_t>(ones.size()), test::one_thread()), 16'777'217.0);
  const Values<float> large = {1e30f, 1e30f};
  EXPECT_NEAR(sum_of_squares(large.data(), 2, test::one_thread()) / 2e60, 1, 1e-6);
}

TEST(Elementwise, AllFiniteFindsTheOne) {
  test::on_each_target([&] {
    for (const int64_t n : {0, 1, 17, 133, 40'003}) {
      Values<double> x = test::normals<double>(n, 1);
      EXPECT_TRUE(all_finite(x.data(), n, test::one_thread()));
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        if (at < 0 || at >= n) continue;
        for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity()}) {
          const double before = std::exchange(x[static_cast<size_t>(at)], bad);
          EXPECT_FALSE(all_finite(x.data(), n, test::one_thread())) << at << " of " << n;
          x[static_cast<size_t>(at)] = before;
        }
      }
    }
    const Values<float> largest = {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    EXPECT_TRUE(all_finite(largest.data(), 2, test::one_thread()));
  });
}

TEST(ElementwiseThreads, SameBits) {
  const int64_t n = 1'000'003;
  const Values<float> x = test::normals<float>(n, 1);
  test::expect_same_bits([&](Executor& ex) { return Values<double>{sum_of_squares(x.data(), n, ex)}; });
  test::expect_same_bits([&](Executor& ex) {
    Values<float> y(x.size());
    multiply(x.data(), x.data(), y.data(), n, ex);
    return y;
  });
}

}  // namespace
}  // namespace heed
