#include "kernels/rotary.h"

#include <complex>
#include <numeric>

#include "kernels/testing.h"

namespace heed {
namespace {

using test::Values;

struct Case {
  RotaryLayout layout;
  int64_t rows = 5, heads = 3, head_size = 8, rotary_size = 8;
  int64_t x_row = heads * head_size, x_head = head_size, y_row = x_row, y_head = x_head;
  std::vector<int32_t> positions = {0, 1, 7, 2, 10'000};
};

template <class T>
void turn(const Case& c, const T* x, T* y, bool inverse, Executor& ex = test::one_thread()) {
  rotary<T>(x, c.positions.data(), y, c.rows, c.heads, c.head_size, c.rotary_size, 10'000, c.layout, inverse, c.x_row,
            c.x_head, c.y_row, c.y_head, ex);
}

// A pair is a complex number that is multiplied by e^(i angle).
double expected(const Case& c, const Values<double>& x, int64_t row, int64_t head, int64_t d) {
  const bool adjacent = c.layout == RotaryLayout::interleaved;
  const int64_t pairs = c.rotary_size / 2, pair = adjacent ? d / 2 : d % pairs;
  const double* const in = x.data() + row * c.x_row + head * c.x_head;
  const std::complex<double> z{in[adjacent ? 2 * pair : pair], in[adjacent ? 2 * pair + 1 : pair + pairs]};
  const double angle = c.positions[static_cast<size_t>(row)] *
                       std::pow(10'000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(c.rotary_size));
  const std::complex<double> turned = z * std::polar(1.0, angle);
  return (adjacent ? d % 2 == 0 : d < pairs) ? turned.real() : turned.imag();
}

class RotaryTest : public testing::TestWithParam<RotaryLayout> {};

TEST_P(RotaryTest, TurnsPairsByTheirAngle) {
  for (const int64_t size : {2, 6, 8, 70}) {
    Case c{.layout = GetParam(), .head_size = size, .rotary_size = size};
    const Values<double> x = test::normals<double>(c.rows * c.x_row, 1);
    Values<double> y(x.size(), NAN);
    turn(c, x.data(), y.data(), false);
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t d = 0; d < size; ++d)
          EXPECT_NEAR(y[static_cast<size_t>(r * c.y_row + h * c.y_head + d)], expected(c, x, r, h, d), 1e-12);
    const Values<float> narrow(x.begin(), x.end());
    Values<float> narrow_y(x.size());
    turn(c, narrow.data(), narrow_y.data(), false);
    test::expect_near(narrow_y, y, 1e-6);  // also at position 10,000
  }
}

TEST_P(RotaryTest, TheInverseTurnsBack) {
  Case c{.layout = GetParam()};
  const Values<double> x = test::normals<double>(c.rows * c.x_row, 1);
  Values<double> y = x;
  turn(c, y.data(), y.data(), false);  // in place
  EXPECT_GT(std::abs(y[50] - x[50]), 1e-3);
  turn(c, y.data(), y.data(), true);
  test::expect_near(y, x, 1e-14);
}

TEST_P(RotaryTest, BackwardIsTheTranspose) {
  // <dy, R x> = <R' dy, x> with R' the inverse.
  Case c{.layout = GetParam()};
  const Values<double> x = test::normals<double>(c.rows * c.x_row, 1), dy = test::normals<double>(c.rows * c.x_row, 2);
  Values<double> y(x.size()), dx(x.size());
  turn(c, x.data(), y.data(), false);
  turn(c, dy.data(), dx.data(), true);
  EXPECT_NEAR(test::dot(dy, y), test::dot(dx, x), 1e-12);
}

TEST_P(RotaryTest, OnlyTheDistanceOfTwoPositionsMatters) {
  Case c{.layout = GetParam(), .rows = 2, .heads = 1, .positions = {3, 11}};
  const Values<double> x = test::normals<double>(16, 1);
  const auto product = [&] {
    Values<double> y(16);
    turn(c, x.data(), y.data(), false);
    return std::inner_product(y.begin(), y.begin() + 8, y.begin() + 8, 0.0);
  };
  const double before = product();
  c.positions = {103, 111};
  EXPECT_NEAR(product(), before, 1e-12);
}

TEST_P(RotaryTest, StridesAndThePartNotTurned) {
  // A head of 10 of which 6 turn, inside a packed projection: what lies between and past stays untouched.
  Case c{.layout = GetParam(),
         .rows = 5,
         .heads = 2,
         .head_size = 10,
         .rotary_size = 6,
         .x_row = 50,
         .x_head = 13,
         .y_row = 31,
         .y_head = 15};
  const Values<double> x = test::normals<double>(c.rows * c.x_row, 1);
  Values<double> y(static_cast<size_t>(c.rows * c.y_row), 7.0);
  turn(c, x.data(), y.data(), false);
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t at = 0; at < c.y_row; ++at) {
      const int64_t h = at / c.y_head, d = at % c.y_head;
      const double got = y[static_cast<size_t>(r * c.y_row + at)];
      if (h < c.heads && d < c.rotary_size)
        EXPECT_NEAR(got, expected(c, x, r, h, d), 1e-12);
      else
        EXPECT_EQ(got, 7.0) << "row " << r << ", " << at;
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, RotaryTest, testing::Values(RotaryLayout::interleaved, RotaryLayout::half_split),
                         [](const auto& kind) {
                           return kind.param == RotaryLayout::interleaved ? "Interleaved" : "HalfSplit";
                         });

TEST(RotaryThreads, SameBits) {
  Case c{.layout = RotaryLayout::half_split, .rows = 4000};
  c.positions.resize(4000);
  std::iota(c.positions.begin(), c.positions.end(), 0);
  const Values<float> x = test::normals<float>(c.rows * c.x_row, 1);
  test::expect_same_bits([&](Executor& ex) {
    Values<float> y(x.size());
    turn(c, x.data(), y.data(), false, ex);
    return y;
  });
}

}  // namespace
}  // namespace heed
