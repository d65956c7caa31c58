#include "kernels/positions.h"

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

TEST(SinusoidalPositions, AgreesWithTheFormula) {
  for (const int64_t width : {1, 2, 7, 64}) {
    Values<float> table(static_cast<size_t>(300 * width), NAN);
    sinusoidal_positions(table.data(), 0, 300, width);
    for (int64_t p = 0; p < 300; ++p)
      for (int64_t i = 0; 2 * i < width; ++i) {
        const double angle =
            static_cast<double>(p) / std::pow(10'000.0, 2.0 * static_cast<double>(i) / static_cast<double>(width));
        EXPECT_NEAR(table[static_cast<size_t>(p * width + 2 * i)], std::sin(angle), 1e-7);
        if (2 * i + 1 == width) continue;
        EXPECT_NEAR(table[static_cast<size_t>(p * width + 2 * i + 1)], std::cos(angle), 1e-7);
      }
  }
}

TEST(SinusoidalPositions, ByHand) {
  Values<double> table(8);
  sinusoidal_positions(table.data(), 0, 2, 4);  // wavelengths 1 and 100
  test::expect_near(
      table, {0, 1, 0, 1, 0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653}, 1e-15);
}

TEST(SinusoidalPositions, NoPositions) {
  const Values<float> before(8, 7);
  Values<float> table = before;
  sinusoidal_positions(table.data(), 3, 0, 8);
  EXPECT_EQ(table, before);
  sinusoidal_positions<float>(nullptr, 0, 0, 8);
}

}  // namespace
}  // namespace heed
