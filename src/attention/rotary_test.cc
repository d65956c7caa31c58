#include "heed/rotary.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "attention/testing.h"

namespace heed {
namespace {

using test::max_error;
using test::random_tensor;

constexpr RotaryLayout kLayouts[] = {RotaryLayout::interleaved, RotaryLayout::half_split};

/// A pair is a complex number that is multiplied by e^(i angle). x and the result in double.
Tensor expected(const Tensor& x, RotaryLayout layout, int64_t size,
                const std::function<double(int64_t, int64_t)>& position, double base = 10'000) {
  const Tensor y = x.clone();
  const bool adjacent = layout == RotaryLayout::interleaved;
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t h = 0; h < x.size(1); ++h)
      for (int64_t l = 0; l < x.size(2); ++l)
        for (int64_t p = 0; p < size / 2; ++p) {
          const int64_t i = adjacent ? 2 * p : p, j = adjacent ? 2 * p + 1 : p + size / 2;
          const double angle =
              position(b, l) * std::pow(base, -2.0 * static_cast<double>(p) / static_cast<double>(size));
          const auto z =
              std::complex<double>(x.at<double>(b, h, l, i), x.at<double>(b, h, l, j)) * std::polar(1.0, angle);
          y.at<double>(b, h, l, i) = z.real();
          y.at<double>(b, h, l, j) = z.imag();
        }
  return y;
}

std::string refusal(const Tensor& x, const Rotary& options) {
  try {
    rotary(x, options);
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}

TEST(Rotary, TurnsPairsByTheirAngle) {
  const auto row = [](int64_t, int64_t l) { return static_cast<double>(l); };
  for (const RotaryLayout layout : kLayouts)
    for (const int64_t size : {2, 6, 8, 70}) {
      const Tensor x = random_tensor({2, 3, 5, size}, 1);
      EXPECT_LT(max_error(rotary(x, {.layout = layout}), expected(x, layout, size, row)), 1e-13);
      EXPECT_LT(max_error(rotary(x, {.layout = layout, .base = 500}), expected(x, layout, size, row, 500)), 1e-13);
    }
}

TEST(Rotary, PositionsOfAnyKind) {
  const Tensor x = random_tensor({2, 3, 3, 8}, 2);
  const double shared[] = {7, 0, 10'000}, own[2][3] = {{1, 2, 3}, {-4, 5, 100'000}};
  for (const RotaryLayout layout : kLayouts) {
    const Tensor one = expected(x, layout, 8, [&](int64_t, int64_t l) { return shared[l]; });
    const Tensor each = expected(x, layout, 8, [&](int64_t b, int64_t l) { return own[b][l]; });
    for (const DType dtype : {DType::i32, DType::i64}) {
      const Tensor a = Tensor::from<int32_t>({7, 0, 10'000}, {3}).to(dtype);
      const Tensor b = Tensor::from<int32_t>({1, 2, 3, -4, 5, 100'000}, {2, 3}).to(dtype);
      EXPECT_LT(max_error(rotary(x, {.layout = layout, .positions = a}), one), 1e-11);
      EXPECT_LT(max_error(rotary(x, {.layout = layout, .positions = b}), each), 1e-10);
      const Tensor scattered = b.transpose(0, 1).clone().transpose(0, 1);
      EXPECT_LT(max_error(rotary(x, {.layout = layout, .positions = scattered}), each), 1e-10);
    }
    // Angles are taken in double, so that float is exact far out, too.
    const Tensor x32 = x.to(DType::f32);
    const Tensor far = rotary(x32, {.layout = layout, .positions = Tensor::from<int32_t>({7, 0, 10'000}, {3})});
    const Tensor exact = expected(x32.to(DType::f64), layout, 8, [&](int64_t, int64_t l) { return shared[l]; });
    EXPECT_LT(max_error(far, exact), 1e-6);
  }
}

TEST(Rotary, FrequenciesAndAnAmplitude) {
  const Tensor x = random_tensor({2, 2, 5, 8}, 7);
  const Tensor frequencies = Tensor::empty({4}, DType::f64);
  for (int64_t p = 0; p < 4; ++p) frequencies.data<double>()[p] = std::pow(500, -2.0 * static_cast<double>(p) / 8);
  const Tensor plain = rotary(x, {.base = 500}), scaled = rotary(x, {.frequencies = frequencies, .amplitude = 1.5});
  EXPECT_EQ(max_error(rotary(x, {.frequencies = frequencies}), plain), 0);
  for (int64_t i = 0; i < x.numel(); ++i) EXPECT_NEAR(scaled.data<double>()[i], 1.5 * plain.data<double>()[i], 1e-13);
  EXPECT_NE(refusal(x, {.frequencies = Tensor::zeros({3}, DType::f64)}), "");
  EXPECT_NE(refusal(x, {.frequencies = Tensor::zeros({4}, DType::f32)}), "");
  EXPECT_NE(refusal(x, {.amplitude = 0}), "");
  const Tensor table = Tensor::zeros({5, 4}, DType::f64);
  EXPECT_NE(refusal(x, {.frequencies = frequencies, .cos = table, .sin = table}), "");
}

TEST(Rotary, PartOfAHeadInStridedMemory) {
  const auto row = [](int64_t, int64_t l) { return static_cast<double>(l); };
  for (const RotaryLayout layout : kLayouts) {
    const Tensor x = random_tensor({2, 2, 4, 10}, 3), exact = expected(x, layout, 6, row);
    const Tensor in = test::strided_copy(x), out = test::strided_copy(Tensor::zeros(x.shape(), DType::f64), 5);
    rotary(in, out, {.layout = layout, .size = 6});
    EXPECT_LT(max_error(out.contiguous(), exact), 1e-13);
    rotary(in, in, {.layout = layout, .size = 6});  // in place
    EXPECT_LT(max_error(in.contiguous(), exact), 1e-13);
  }
}

TEST(Rotary, TheInverseTurnsBackAndIsTheGradient) {
  const Tensor x = random_tensor({2, 2, 5, 8}, 4), dy = random_tensor({2, 2, 5, 8}, 5);
  for (const RotaryLayout layout : kLayouts) {
    const Rotary o{.layout = layout, .size = 6};
    const Tensor y = rotary(x, o), dx = rotary(dy, o, true);
    EXPECT_LT(max_error(rotary(y, o, true), x), 1e-14);
    double forward = 0, backward = 0;  // <dy, R x> = <R' dy, x>
    for (int64_t i = 0; i < x.numel(); ++i) {
      forward += dy.data<double>()[i] * y.data<double>()[i];
      backward += dx.data<double>()[i] * x.data<double>()[i];
    }
    EXPECT_NEAR(forward, backward, 1e-12);
  }
}

TEST(Rotary, TablesAsOnnxGivesThem) {
  const Tensor x = random_tensor({2, 3, 4, 8}, 6);
  const Tensor positions = Tensor::from<int64_t>({3, 1, 0, 5, 2, 2, 4, 0}, {2, 4});
  for (const RotaryLayout layout : kLayouts) {
    const Tensor cos = Tensor::empty({6, 3}, DType::f64), sin = Tensor::empty({6, 3}, DType::f64);
    const Tensor own_cos = Tensor::empty({2, 4, 3}, DType::f64), own_sin = Tensor::empty({2, 4, 3}, DType::f64);
    const auto angle = [](int64_t row, int64_t p) {
      return static_cast<double>(row) * std::pow(10'000, -2.0 * static_cast<double>(p) / 6);
    };
    for (int64_t p = 0; p < 3; ++p) {
      for (int64_t r = 0; r < 6; ++r) {
        cos.at<double>(r, p) = std::cos(angle(r, p));
        sin.at<double>(r, p) = std::sin(angle(r, p));
      }
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t l = 0; l < 4; ++l) {
          own_cos.at<double>(b, l, p) = std::cos(angle(positions.at<int64_t>(b, l), p));
          own_sin.at<double>(b, l, p) = std::sin(angle(positions.at<int64_t>(b, l), p));
        }
    }
    for (const bool inverse : {false, true}) {
      const Tensor exact = rotary(x, {.layout = layout, .size = 6, .positions = positions}, inverse);
      const Rotary looked_up{.layout = layout, .size = 6, .cos = own_cos, .sin = own_sin};
      const Rotary by_id{.layout = layout, .size = 6, .positions = positions, .cos = cos, .sin = sin};
      EXPECT_LT(max_error(rotary(x, by_id, inverse), exact), 1e-14);
      EXPECT_LT(max_error(rotary(x, looked_up, inverse), exact), 1e-14);
      const Rotary in_order{.layout = layout, .size = 6, .cos = cos, .sin = sin};
      EXPECT_LT(max_error(rotary(x, in_order, inverse), rotary(x, {.layout = layout, .size = 6}, inverse)), 1e-14);
    }
  }
}

TEST(Rotary, HalvesAreTurnedInFloat) {
  const Tensor x = random_tensor({1, 2, 6, 16}, 7, DType::f32);
  for (const DType kept : {DType::f16, DType::bf16}) {
    const Tensor half = x.to(kept), exact = rotary(half.to(DType::f32)).to(kept), y = rotary(half);
    ASSERT_EQ(y.dtype(), kept);
    EXPECT_EQ(std::memcmp(y.raw(), exact.raw(), static_cast<size_t>(y.nbytes())), 0);
    const Tensor into = Tensor::empty(x.shape(), kept);  // converted on the way, as a cache takes it
    rotary(x, into);
    const Tensor turned = rotary(x).to(kept);
    EXPECT_EQ(std::memcmp(into.raw(), turned.raw(), static_cast<size_t>(into.nbytes())), 0);
  }
}

TEST(Rotary, SameBitsForEveryNumberOfThreads) {
  const Tensor x = random_tensor({2, 3, 2000, 8}, 8, DType::f32);
  const auto turned = [&](int threads) {
    const auto executor = make_executor(threads);
    return rotary(x, {.executor = executor.get()});
  };
  const Tensor one = turned(1);
  for (const int threads : {2, 3, 8}) {
    const Tensor many = turned(threads);
    EXPECT_EQ(std::memcmp(one.raw(), many.raw(), static_cast<size_t>(one.nbytes())), 0);
  }
}

TEST(Rotary, NothingToTurn) {
  EXPECT_EQ(rotary(Tensor::zeros({2, 3, 0, 8})).numel(), 0);
  EXPECT_EQ(rotary(Tensor::zeros({0, 3, 4, 8})).numel(), 0);
}

TEST(Rotary, SaysWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3, 4, 6});
  const auto zeros = [](const Dims& shape) { return Tensor::zeros(shape); };
  EXPECT_EQ(refusal(Tensor::zeros({4, 6}), {}), "rotary: x has shape (4, 6), not the four dimensions (B, H, L, D)");
  EXPECT_EQ(refusal(Tensor::zeros({1, 1, 1, 5}), {}),
            "rotary: size 5 is not even and within the head size 5; pass 2 to 4");
  EXPECT_EQ(refusal(x, {.size = 8}), "rotary: size 8 is not even and within the head size 6; pass 2 to 6");
  EXPECT_NE(refusal(x, {.size = -2}), "");
  EXPECT_NE(refusal(x, {.base = 0}), "");
  EXPECT_NE(refusal(x.transpose(2, 3), {}), "");
  EXPECT_NE(refusal(Tensor::zeros({2, 3, 4, 6}, DType::i32), {}), "");
  EXPECT_EQ(refusal(x, {.positions = Tensor::zeros({5}, DType::i32)}),
            "rotary: positions are i32 (5); pass i32 or i64 (L) or (B, L) for x (2, 3, 4, 6)");
  EXPECT_NE(refusal(x, {.positions = Tensor::zeros({4})}), "");
  EXPECT_EQ(refusal(x, {.cos = zeros({9, 3})}), "rotary: cos is given without sin; pass both or neither");
  EXPECT_NE(refusal(x, {.cos = zeros({9, 2}), .sin = zeros({9, 2})}), "");
  EXPECT_NE(refusal(x, {.cos = zeros({9, 3}), .sin = zeros({8, 3})}), "");
  EXPECT_EQ(refusal(x, {.cos = zeros({3, 3}), .sin = zeros({3, 3})}),
            "rotary: cos and sin have 3 positions for L = 4; pass longer tables");
  for (const int64_t position : {-1, 9}) {
    const Tensor positions = Tensor::full({2, 4}, static_cast<double>(position), DType::i64);
    EXPECT_EQ(refusal(x, {.positions = positions, .cos = zeros({9, 3}), .sin = zeros({9, 3})}),
              "rotary: position " + std::to_string(position) + " is not one of the 9 of cos and sin");
  }
  EXPECT_NE(refusal(x, {.positions = Tensor::zeros({4}, DType::i32), .cos = zeros({2, 4, 3}), .sin = zeros({2, 4, 3})}),
            "");
  EXPECT_THROW(rotary(x, Tensor::zeros({2, 3, 4, 5})), ShapeError);
}

// A row would be turned twice, or overwritten by another one.
TEST(Rotary, WritesEachElementOnceAndNothingThatIsRead) {
  std::vector<float> memory(1000), given(1000);
  const Dims all{2, 3, 4, 6};
  const auto view = [&](std::vector<float>& from, const Dims& strides, size_t first = 0) {
    return Tensor::borrow(from.data() + first, DType::f32, all, strides);
  };
  const auto said = [](const Tensor& x, const Tensor& y, const Rotary& o = {}) -> std::string {
    try {
      rotary(x, y, o);
    } catch (const ShapeError& e) {
      return e.what();
    }
    return "";
  };
  const Tensor x = view(given, {72, 24, 6, 1});
  for (const Dims& strides : {Dims{72, 24, 6, 1}, {72, 6, 18, 1}, {200, 60, 10, 1}})
    EXPECT_EQ(said(x, view(memory, strides)), "") << to_string(strides);
  for (const Dims& strides : {Dims{72, 24, 5, 1}, {72, 23, 6, 1}, {71, 24, 6, 1}, {6, 24, 6, 1}})
    EXPECT_EQ(said(x, view(memory, strides)), "rotary: y of shape (2, 3, 4, 6) has strides " + to_string(strides) +
                                                  ", so its elements may share memory; pass separate memory");
  EXPECT_EQ(said(x, view(memory, {72, 24, 0, 1})),
            "rotary: y is broadcast along dimension 2 and cannot be written to; pass separate memory");
  const Tensor same = Tensor::zeros({1, 3, 4, 6}).expand(all);
  EXPECT_NE(said(same, same).find("y is broadcast along dimension 0"), std::string::npos);
  EXPECT_EQ(said(same, view(memory, {72, 24, 6, 1})), "");

  EXPECT_EQ(said(x, view(given, {72, 24, 6, 1})), "");       // y is x
  EXPECT_EQ(said(x, view(given, {72, 24, 6, 1}, 144)), "");  // after it
  EXPECT_EQ(said(view(given, {144, 48, 12, 1}), view(given, {144, 48, 12, 1}, 6)), "");
  for (const Tensor& y : {view(given, {72, 24, 6, 1}, 6), view(given, {72, 6, 18, 1}),
                          Tensor::borrow(given.data(), DType::f64, all, {72, 24, 6, 1})})
    EXPECT_EQ(said(x, y), "rotary: y shares memory with x, which is read; pass separate memory");
  const Tensor table = Tensor::borrow(memory.data() + 140, DType::f32, {4, 3});
  const Tensor ids = Tensor::borrow(memory.data() + 140, DType::i32, {4});
  const Tensor y = view(memory, {72, 24, 6, 1}), other = Tensor::zeros({4, 3});
  EXPECT_NE(said(x, y, {.cos = table, .sin = other}).find("y shares memory with cos, which is read"),
            std::string::npos);
  EXPECT_NE(said(x, y, {.cos = other, .sin = table}).find("y shares memory with sin"), std::string::npos);
  EXPECT_NE(said(x, y, {.positions = ids}).find("y shares memory with positions"), std::string::npos);
}

}  // namespace
}  // namespace heed
