#include "kernels/linear.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/testing.h"
#include "kernels/activation.h"
#include "kernels/testing.h"
#include "simd/matrix_tiles.h"

namespace heed {
namespace {

using test::Values;

template <class T>
struct Layer {
  int64_t rows, in, out;
  Values<T> x = test::normals<T>(rows * in, 1), w = test::normals<T>(out * in, 2), bias = test::normals<T>(out, 3);
  Values<T> dy = test::normals<T>(rows * out, 4);

  Values<T> forward(bool with_bias, Executor& ex) const {
    Values<T> y(static_cast<size_t>(rows * out), static_cast<T>(NAN));
    linear_forward<T>(x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data(), rows, in, out, ex);
    return y;
  }
};

// While it lives, products run on the matrix unit, or on none.
struct UsingTiles {
  explicit UsingTiles(bool use) { use_matrix_tiles_for_test(use); }
  ~UsingTiles() { use_matrix_tiles_for_test(before); }
  const bool before = uses_matrix_tiles();
};

// On each target, and on the matrix unit where the processor has one.
template <class F>
void on_each_unit(F&& f) {
  test::on_each_target(f);
  if (!has_matrix_tiles()) return;
  SCOPED_TRACE("matrix unit");
  const UsingTiles tiles(true);
  f();
}

template <class T>
void check(int64_t rows, int64_t in, int64_t out, double tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out);
  const Layer<T> l{rows, in, out};
  Values<double> plain(static_cast<size_t>(rows * out), 0), biased(plain.size());
  Values<double> edx(l.x.size(), 0), edw(l.w.size(), 1), edbias(l.bias.size(), 1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      const T *x = l.x.data() + r * in, *w = l.w.data() + o * in;
      double *const dx = edx.data() + r * in, *const dw = edw.data() + o * in;
      const auto at = static_cast<size_t>(r * out + o);
      const double g = l.dy[r * out + o];
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) {
        sum += double{x[i]} * double{w[i]};
        dx[i] += g * w[i];
        dw[i] += g * x[i];
      }
      plain[at] = sum;
      biased[at] = sum + l.bias[o];
      edbias[static_cast<size_t>(o)] += g;
    }
  on_each_unit([&] {
    for (const bool with_bias : {false, true})
      test::expect_near(l.forward(with_bias, test::one_thread()), with_bias ? biased : plain, tolerance);
    // dx is assigned (the NaN must go), dw and dbias are added to (the 1 must stay).
    Values<T> dx(l.x.size(), static_cast<T>(NAN)), dw(l.w.size(), T{1}), dbias(l.bias.size(), T{1});
    linear_backward<T>(l.dy.data(), l.x.data(), l.w.data(), dx.data(), dw.data(), dbias.data(), rows, in, out,
                       test::one_thread());
    test::expect_near(dx, edx, tolerance);
    test::expect_near(dw, edw, tolerance);
    test::expect_near(dbias, edbias, tolerance);
  });
}

TEST(Linear, PackedWeightAgreesWithTheWeightAsItStands) {
  on_each_unit([] {
    for (const int64_t rows : {0, 1, 5, 26, 97})
      for (const int64_t out : {1, 33, 700}) {
        const Layer<float> l{rows, 37, out};
        const PackedWeight<float> packed(l.w.data(), l.in, l.out, test::one_thread());
        Values<float> y(static_cast<size_t>(rows * out), NAN);
        linear_forward<float>(l.x.data(), packed, y.data(), rows, test::one_thread());
        test::expect_near(y, test::widen(l.forward(false, test::one_thread())), 2e-6);
      }
  });
}

TEST(Linear, AgreesWithLoops) {
  const int64_t shapes[][3] = {{1, 1, 1}, {0, 4, 3}, {3, 5, 7}, {4, 33, 130}, {70, 129, 65}, {513, 17, 9}};
  for (const auto& s : shapes) {
    check<float>(s[0], s[1], s[2], 2e-6);
    check<double>(s[0], s[1], s[2], 1e-14);
  }
}

TEST(Linear, ManyRowsAgreeWithLoops) {
  // Packed weights, from 192 rows on (forward: 384): odd tails of rows and columns, a sum longer than a block, and dw
  // in three pieces.
  const int64_t shapes[][3] = {{192, 1, 1}, {205, 33, 130}, {193, 530, 3}, {384, 1, 1}, {385, 530, 3}, {1601, 19, 67}};
  for (const auto& s : shapes) {
    check<float>(s[0], s[1], s[2], 2e-6);
    check<double>(s[0], s[1], s[2], 1e-14);
  }
}

TEST(Linear, LargeWeightsAgreeWithLoops) {
  // Gradients by tiles of the weight's: several down and across, sums longer than a block, odd tails, few rows and
  // many.
  const int64_t shapes[][3] = {{190, 33, 130}, {3, 1030, 521}, {400, 1030, 521}, {520, 521, 1030}};
  for (const auto& s : shapes) {
    check<float>(s[0], s[1], s[2], 2e-6);
    check<double>(s[0], s[1], s[2], 1e-14);
  }
}

TEST(Linear, GradientsOfSizesThatAreZero) {
  check<float>(5, 3, 0, 0);
  check<float>(5, 0, 3, 1e-6);
  check<float>(0, 3, 5, 0);
  check<float>(200, 3, 0, 0);
  check<float>(200, 0, 3, 1e-6);
}

// Small results, large weights and many rows, computed at once by more threads than they have tiles.
TEST(Linear, GradientsHaveTheSameBitsFromManyThreads) {
  const auto executor = make_executor(4);
  for (const bool tiles : {false, true}) {
    const UsingTiles unit(tiles);
    for (const auto& [rows, in, out] :
         {std::array<int64_t, 3>{64, 256, 768}, {150, 768, 256}, {300, 1030, 521}, {1500, 256, 512}}) {
      const Layer<float> l{rows, in, out};
      const auto gradients = [&](Executor& ex) {
        std::array<Values<float>, 3> g{Values<float>(l.x.size()), Values<float>(l.w.size()),
                                       Values<float>(l.bias.size())};
        linear_backward<float>(l.dy.data(), l.x.data(), l.w.data(), g[0].data(), g[1].data(), g[2].data(), l.rows, l.in,
                               l.out, ex);
        return g;
      };
      const auto expected = gradients(test::one_thread());
      for (int repeat = 0; repeat < 10; ++repeat) ASSERT_EQ(gradients(*executor), expected) << rows << ' ' << repeat;
    }
  }
}

TEST(Linear, FewRowsAreSummedAlikeOnEachTarget) {
  // All tails of rows, columns and vectors, weights of several tiles, and one that is read by one stream: the bits of
  // each element are those that its row and its weight give alone.
  const int64_t shapes[][3] = {{7, 37, 11}, {5, 3, 6}, {95, 700, 50}, {7, 1030, 521}};
  for (const auto& s : shapes) {
    check<float>(s[0], s[1], s[2], 2e-6);
    check<double>(s[0], s[1], s[2], 1e-14);
  }
  on_each_unit([&] {
    for (const auto& s : shapes) {
      const Layer<float> l{s[0], s[1], s[2]};
      const Values<float> together = l.forward(true, test::one_thread());
      for (int64_t rows = 1; rows < std::min<int64_t>(l.rows, 8); ++rows) {
        const Values<float> fewer = Layer<float>{rows, l.in, l.out, l.x, l.w, l.bias}.forward(true, test::one_thread());
        EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), together.begin())) << rows << " rows";
      }
      for (int64_t j = 0; j < l.out; ++j) {
        float alone = NAN;
        linear_forward<float>(l.x.data(), l.w.data() + j * l.in, l.bias.data() + j, &alone, 1, l.in, 1,
                              test::one_thread());
        EXPECT_EQ(alone, together[static_cast<size_t>(j)]) << "column " << j;
      }
    }
  });
}

TEST(Linear, BlocksAgreeWithLoops) {
  // Rows and columns that end within tiles and panels, and depths within a block and beyond it.
  const int64_t shapes[][3] = {{101, 300, 119}, {97, 1030, 521}, {391, 65, 49}};
  for (const auto& s : shapes) {
    check<float>(s[0], s[1], s[2], 2e-6);
    check<double>(s[0], s[1], s[2], 1e-14);
  }
}

TEST(Linear, ForwardHasTheSameBitsFromManyThreads) {
  for (const bool tiles : {false, true}) {
    const UsingTiles unit(tiles);
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{96, 256, 768}, {400, 300, 1030}, {1500, 64, 700}}) {
      const Layer<float> l{rows, in, out};
      const Values<float> expected = l.forward(true, test::one_thread());
      for (const int threads : {2, 5, 16}) EXPECT_EQ(l.forward(true, *make_executor(threads)), expected) << threads;
    }
  }
}

void expect_bits_of_the_widened(DType dtype, const std::vector<std::pair<int64_t, int64_t>>& shapes) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 7, 97, 385})
    for (const auto& [in, out] : shapes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << in << " -> " << out << ' ' << name_of(dtype));
      Layer<float> l{rows, in, out};
      const Tensor kept = is_quantised(dtype) ? random_blocks(dtype, {out, in})
                                              : Tensor::borrow(l.w.data(), DType::f32, {out, in}).to(dtype);
      const Tensor wide = kept.to(DType::f32);
      l.w.assign(wide.data<float>(), wide.data<float>() + wide.numel());
      Values<float> y(static_cast<size_t>(rows * out), NAN), expected = y;
      with_weights<float>(kept, [&](const auto& w) {
        linear_forward(l.x.data(), w, l.bias.data(), y.data(), rows, l.in, l.out, test::one_thread());
        EXPECT_EQ(y, l.forward(true, test::one_thread()));
        linear_forward(l.x.data(), w, l.bias.data(), expected.data(), rows, l.in, l.out, *make_executor(3));
        EXPECT_EQ(y, expected);
        linear_forward(l.x.data(), PackedWeight<float>(w, l.in, l.out, test::one_thread()), y.data(), rows,
                       test::one_thread());
      });
      linear_forward(l.x.data(), PackedWeight<float>(l.w.data(), l.in, l.out, test::one_thread()), expected.data(),
                     rows, test::one_thread());
      EXPECT_EQ(y, expected);
    }
}

TEST(Linear, WeightsInFewerBitsGiveTheBitsOfTheWidened) {
  on_each_unit([] {
    for (const DType dtype : {DType::f16, DType::bf16})
      expect_bits_of_the_widened(dtype, {{1, 3}, {37, 130}, {700, 50}, {5000, 9}, {1030, 521}});
    for (const DType dtype : {DType::q8, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1})
      expect_bits_of_the_widened(dtype, {{32, 3}, {64, 130}, {704, 50}, {4992, 9}, {1056, 521}});
    for (const DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k})
      expect_bits_of_the_widened(dtype, {{256, 3}, {512, 130}, {4864, 9}, {1280, 521}});
  });
}

// One kind of NaN.
std::vector<uint32_t> bits_of(const Values<float>& values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(std::isnan(x) ? 0x7FC00000 : std::bit_cast<uint32_t>(x));
  return bits;
}

// Without the variable, and once more with it (tests/kernels.cmake).
TEST(Linear, TheMatrixUnitIsAskedForByTheEnvironment) {
  const char* const asked = std::getenv("HEED_MATRIX_UNIT");
  EXPECT_EQ(uses_matrix_tiles(), asked && std::string(asked) == "1" && has_matrix_tiles());
}

TEST(Linear, NumbersThatTilesDoNotHoldAreLeftToVectors) {
  if (!has_matrix_tiles()) GTEST_SKIP() << "this processor has no matrix unit (AMX)";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float most = std::bit_cast<float>(uint32_t{0x7F7F7FFF}), beyond = std::bit_cast<float>(uint32_t{0x7F7F8000});
  EXPECT_TRUE(tiles_hold(&most, 1));
  EXPECT_FALSE(tiles_hold(&beyond, 1));
  const auto executor = make_executor(3);
  for (const float number : {kInfinity, -kInfinity, NAN, -beyond})
    for (const auto operand : {&Layer<float>::x, &Layer<float>::w, &Layer<float>::dy}) {
      Layer<float> l{150, 770, 700};
      (l.*operand)[500] = number;
      const auto products = [&] {
        Values<float> y(l.dy.size()), half = y, dx(l.x.size()), dw(l.w.size(), 1), dbias(l.bias.size());
        const Tensor kept = Tensor::borrow(l.w.data(), DType::f32, {l.out, l.in}).to(DType::bf16);
        linear_forward(l.x.data(), kept.data<bfloat16>(), l.bias.data(), half.data(), l.rows, l.in, l.out, *executor);
        linear_backward<float>(l.dy.data(), l.x.data(), l.w.data(), dx.data(), dw.data(), dbias.data(), l.rows, l.in,
                               l.out, *executor);
        return std::array{bits_of(l.forward(true, *executor)), bits_of(half), bits_of(dx), bits_of(dw)};
      };
      const auto on = [&](bool tiles) {
        const UsingTiles unit(tiles);
        return products();
      };
      const auto expected = on(false), got = on(true);
      SCOPED_TRACE(number);
      if (operand != &Layer<float>::dy) {
        EXPECT_EQ(got[0], expected[0]);
        EXPECT_EQ(got[1], expected[1]);
      }
      if (operand != &Layer<float>::x) {
        EXPECT_EQ(got[2], expected[2]);
      }
      if (operand != &Layer<float>::w) {
        EXPECT_EQ(got[3], expected[3]);
      }
      // The product without that operand runs on the unit, whose bits are others.
      const size_t other = operand == &Layer<float>::dy ? 0 : operand == &Layer<float>::x ? 2 : 3;
      EXPECT_NE(got[other], expected[other]);
    }
}

TEST(Linear, TilesSumAsAccuratelyAsVectors) {
  if (!has_matrix_tiles()) GTEST_SKIP() << "this processor has no matrix unit (AMX)";
  // Against double, in units of the sum of absolute products: numbers whose lowest bits all count, of sizes 2^-20 to
  // 2^20.
  const int64_t rows = 128, in = 1500, out = 64;
  Layer<float> l{rows, in, out};
  for (auto* const values : {&l.x, &l.w})
    for (size_t i = 0; i < values->size(); ++i)
      (*values)[i] = std::ldexp((*values)[i], static_cast<int>(i * 7 % 41) - 20);
  double worst[2] = {};
  for (const bool vectors : {false, true}) {
    const UsingTiles tiles(!vectors);
    const Values<float> y = l.forward(false, test::one_thread());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0, absolute = 0;
        for (int64_t i = 0; i < in; ++i) {
          const double product =
              double{l.x[static_cast<size_t>(r * in + i)]} * double{l.w[static_cast<size_t>(o * in + i)]};
          sum += product;
          absolute += std::abs(product);
        }
        worst[vectors] = std::max(worst[vectors], std::abs(y[static_cast<size_t>(r * out + o)] - sum) / absolute);
      }
  }
  EXPECT_LT(worst[0], 2e-7);
  EXPECT_LT(worst[0], 2 * worst[1]);
}

TEST(Linear, NullGradientsAreSkipped) {
  const Layer<double> l{6, 5, 4};
  Values<double> dw(l.w.size()), dbias(l.bias.size()), dx(l.x.size());
  linear_backward<double>(l.dy.data(), l.x.data(), l.w.data(), nullptr, nullptr, nullptr, 6, 5, 4, test::one_thread());
  linear_backward<double>(l.dy.data(), l.x.data(), l.w.data(), nullptr, dw.data(), nullptr, 6, 5, 4,
                          test::one_thread());
  linear_backward<double>(l.dy.data(), l.x.data(), l.w.data(), dx.data(), nullptr, dbias.data(), 6, 5, 4,
                          test::one_thread());
  Values<double> all_dw(dw.size()), all_dbias(dbias.size()), all_dx(dx.size());
  linear_backward<double>(l.dy.data(), l.x.data(), l.w.data(), all_dx.data(), all_dw.data(), all_dbias.data(), 6, 5, 4,
                          test::one_thread());
  EXPECT_EQ(dw, all_dw);
  EXPECT_EQ(dbias, all_dbias);
  EXPECT_EQ(dx, all_dx);
}

TEST(Linear, ReluIsTheActivationAfterIt) {
  on_each_unit([&] {
    for (const int64_t rows : {5, 300}) {
      const Layer<float> l{rows, 19, 35};
      const auto size = static_cast<int64_t>(l.dy.size());
      const Values<float> before = l.forward(true, test::one_thread());
      Values<float> want(before.size()), got(before.size());
      activation_forward<float>(Activation::relu, before.data(), want.data(), size, test::one_thread());
      linear_forward<float>(l.x.data(), l.w.data(), l.bias.data(), got.data(), rows, l.in, l.out, test::one_thread(),
                            true);
      EXPECT_EQ(got, want);
      float x = NAN, w = 1, y = 0;
      linear_forward<float>(&x, &w, nullptr, &y, 1, 1, 1, test::one_thread(), true);
      EXPECT_TRUE(std::isnan(y));

      Values<float> dbefore(before.size());
      activation_backward<float>(Activation::relu, l.dy.data(), before.data(), dbefore.data(), size,
                                 test::one_thread());
      const auto backward = [&](const Values<float>& dy, const float* relu) {
        Values<float> dx(l.x.size()), dw(l.w.size()), dbias(l.bias.size());
        linear_backward<float>(dy.data(), l.x.data(), l.w.data(), dx.data(), dw.data(), dbias.data(), rows, l.in, l.out,
                               test::one_thread(), relu);
        dx.insert(dx.end(), dw.begin(), dw.end());
        dx.insert(dx.end(), dbias.begin(), dbias.end());
        return dx;
      };
      EXPECT_EQ(backward(l.dy, got.data()), backward(dbefore, nullptr));
    }
  });
}

class LinearThreads : public testing::TestWithParam<int64_t> {};
// Few rows, rows that repay packing, and several pieces of dw.
INSTANTIATE_TEST_SUITE_P(Rows, LinearThreads, testing::Values(100, 600, 2100));

TEST_P(LinearThreads, SameBits) {
  const Layer<float> l{GetParam(), 130, 257};
  test::expect_same_bits([&](Executor& ex) { return l.forward(true, ex); });
  test::expect_same_bits([&](Executor& ex) {
    Values<float> dx(l.x.size()), dw(l.w.size()), dbias(l.bias.size());
    linear_backward<float>(l.dy.data(), l.x.data(), l.w.data(), dx.data(), dw.data(), dbias.data(), l.rows, l.in, l.out,
                           ex);
    dx.insert(dx.end(), dw.begin(), dw.end());
    dx.insert(dx.end(), dbias.begin(), dbias.end());
    return dx;
  });
}

}  // namespace
}  // namespace heed
