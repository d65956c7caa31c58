#include "kernels/dropout.h"

#include "core/philox.h"
#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

// One element by the definition.
template <class T>
T expected(T x, int64_t i, double p, uint64_t seed, uint64_t stream) {
  const auto block = static_cast<uint64_t>(i / 4);
  const PhiloxCounter draw = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                         static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                        philox_key(seed));
  return draw[static_cast<size_t>(i % 4)] < keep_threshold(p) ? x * static_cast<T>(1 / (1 - p)) : T{0};
}

template <class T>
Values<T> dropped(const Values<T>& x, double p, uint64_t seed, uint64_t stream, Executor& ex = test::one_thread()) {
  Values<T> y(x.size(), static_cast<T>(NAN));
  dropout_forward<T>(x.data(), y.data(), static_cast<int64_t>(x.size()), p, seed, stream, ex);
  return y;
}

TEST(Dropout, DrawsAreThoseOfPhilox) {
  test::on_each_target([&] {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 63, 64, 133, 1025, 40'003})
      for (const double p : {0.1, 0.5, 0.97}) {
        const uint64_t seed = 0x9E3779B97F4A7C15, stream = 0xDEADBEEF00000007;  // both halves count
        const auto check = [&](auto tag) {
          using T = decltype(tag);
          const Values<T> x = test::normals<T>(n, 1), residual = test::normals<T>(n, 2);
          const Values<T> y = dropped(x, p, seed, stream);
          Values<T> added(x.size());
          dropout_add_forward<T>(x.data(), residual.data(), added.data(), n, p, seed, stream, test::one_thread());
          for (size_t i = 0; i < x.size(); ++i) {
            const T e = expected(x[i], static_cast<int64_t>(i), p, seed, stream);
            ASSERT_EQ(y[i], e) << i << " of " << n;
            ASSERT_NEAR(added[i], residual[i] + e, 1e-6 * (1 + std::abs(e))) << i << " of " << n;
          }
        };
        check(float{});
        check(double{});
      }
  });
}

TEST(Dropout, InPlaceIsTheSame) {
  Values<float> x = test::normals<float>(1000, 1);
  const Values<float> y = dropped(x, 0.3, 5, 6);
  dropout_forward(x.data(), x.data(), 1000, 0.3, 5, 6, test::one_thread());
  EXPECT_EQ(x, y);
}

TEST(Dropout, APartIsDroppedAsInTheWhole) {
  test::on_each_target([&] {
    const Values<float> x = test::normals<float>(5000, 1), whole = dropped(x, 0.3, 5, 6);
    for (const int64_t first : {1, 2, 3, 4, 1023, 2050}) {
      Values<float> part(2500);
      dropout_forward(x.data() + first, part.data(), 2500, 0.3, 5, 6, test::one_thread(), first);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
    }
  });
}

TEST(Dropout, KeepsItsShareAndItsMean) {
  const int64_t n = 1'000'000;
  const Values<float> y = dropped(Values<float>(static_cast<size_t>(n), 1.0f), 0.1, 1, 2);
  const auto zeros = std::count(y.begin(), y.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(n), 0.1, 5 * std::sqrt(0.09 / static_cast<double>(n)));
  EXPECT_FLOAT_EQ(*std::max_element(y.begin(), y.end()), 1 / 0.9f);
}

TEST(Dropout, ProbabilityZeroKeepsAll) {
  const Values<float> x = test::normals<float>(133, 1);
  EXPECT_EQ(dropped(x, 0, 1, 2), x);
}

TEST(Dropout, ADroppedNanIsGone) {
  const Values<float> y = dropped(Values<float>(64, NAN), 0.5, 1, 2);
  const auto kept = std::count_if(y.begin(), y.end(), [](float v) { return std::isnan(v); });
  EXPECT_GT(kept, 10);
  EXPECT_EQ(std::count(y.begin(), y.end(), 0.0f), 64 - kept);
}

TEST(Dropout, SeedAndStreamBothChangeTheMask) {
  const Values<float> ones(256, 1.0f), a = dropped(ones, 0.5, 1, 2);
  EXPECT_EQ(a, dropped(ones, 0.5, 1, 2));
  EXPECT_NE(a, dropped(ones, 0.5, 2, 2));
  EXPECT_NE(a, dropped(ones, 0.5, 1, 3));
  EXPECT_NE(a, dropped(ones, 0.5, 1 + (uint64_t{1} << 32), 2));
  EXPECT_NE(a, dropped(ones, 0.5, 1, 2 + (uint64_t{1} << 32)));
}

TEST(DropoutThreads, SameBits) {
  const Values<float> x = test::normals<float>(200'003, 1);
  test::expect_same_bits([&](Executor& ex) { return dropped(x, 0.1, 1, 2, ex); });
}

}  // namespace
}  // namespace heed
