// What kernels are made of, on every SIMD target that this machine can run, against one number at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/simd_test.cc"
#include <gtest/gtest.h>
#include <hwy/foreach_target.h>
#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/philox.h"
#include "heed/tensor.h"
#include "simd/exp-inl.h"
#include "simd/philox-inl.h"
#include "simd/product-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

template <class T>
void Exponentials(const T* x, T* natural, T* of_score, int64_t n) {
  const Lanes<T> d;
  for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR {
    store(exp(d, load(x)), natural);
    store(exp_of_score(d, load(x)), of_score);
  });
}
void ExponentialsF32(const float* x, float* e, float* b, int64_t n) { Exponentials(x, e, b, n); }
void ExponentialsF64(const double* x, double* e, double* b, int64_t n) { Exponentials(x, e, b, n); }

template <class S>
void Narrow(const float* x, uint16_t* bits, int64_t n) {  // n is a multiple of all lanes
  if constexpr (kConverts<S>)
    for (int64_t i = 0; i < n; i += lanes<float>())
      store_as<float>(hn::LoadU(Lanes<float>(), x + i), reinterpret_cast<S*>(bits) + i);
}
bool RoundsHalf() { return kConverts<hwy::float16_t>; }
void NarrowF16(const float* x, uint16_t* bits, int64_t n) { Narrow<hwy::float16_t>(x, bits, n); }
void NarrowBF16(const float* x, uint16_t* bits, int64_t n) { Narrow<hwy::bfloat16_t>(x, bits, n); }
void WidenF16(const uint16_t* x, float* y, int64_t n) { widen(reinterpret_cast<const hwy::float16_t*>(x), n, y); }
void WidenBF16(const uint16_t* x, float* y, int64_t n) { widen(reinterpret_cast<const hwy::bfloat16_t*>(x), n, y); }

int64_t LanesF32() { return lanes<float>(); }

template <class T>
void FourSums(const T* x, T* y) {
  const Lanes<T> d;
  Vec<T> v[4];
  unroll<4>([&](auto i) HWY_ATTR { v[i] = hn::LoadU(d, x + i * lanes<T>()); });
  store_four_sums<T>(v, y);
}
void FourSumsF32(const float* x, float* y) { FourSums(x, y); }
void FourSumsF64(const double* x, double* y) { FourSums(x, y); }

// c (5, 2 vectors) = a (5, depth) b (depth, 2 vectors).
template <bool kByRow>
void Product(const float* a, int64_t stride, const float* b, int64_t depth, float* c) {
  const Lanes<float> d;
  constexpr int64_t N = lanes<float>();
  product_tile<5, 2>(Left<float, kByRow>{a, stride}, b, 2 * N, depth,
                     [&](auto r, auto v, Vec<float> sum) HWY_ATTR { hn::StoreU(sum, d, c + (r * 2 + v) * N); });
}
void ProductByRow(const float* a, int64_t stride, const float* b, int64_t depth, float* c) {
  Product<true>(a, stride, b, depth, c);
}
void ProductByColumn(const float* a, int64_t stride, const float* b, int64_t depth, float* c) {
  Product<false>(a, stride, b, depth, c);
}

// below (8, 4): whether each word of counters first .. first + 7 is below the threshold.
void Draw(uint64_t first, uint64_t stream, uint64_t seed, uint64_t threshold, uint8_t* below) {
#if HWY_TARGET == HWY_SCALAR
  for (uint64_t i = 0; i < 8; ++i) {
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(first + i), static_cast<uint32_t>((first + i) >> 32),
                                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                           philox_key(seed));
    for (size_t w = 0; w < 4; ++w) below[i * 4 + w] = words[w] < threshold;
  }
#else
  const Lanes<uint64_t> d;
  const Lanes<int64_t> di;
  constexpr int64_t N = lanes<uint64_t>();
  for (int64_t i = 0; i < 8; i += N) {
    const auto counter = hn::Iota(d, first + static_cast<uint64_t>(i));
    PhiloxBlocks blocks{counter, hn::ShiftRight<32>(counter), hn::Set(d, stream), hn::Set(d, stream >> 32)};
    philox_draw(philox_key(seed), blocks);
    const Vec<uint64_t> words[4] = {blocks.c0, blocks.c1, blocks.c2, blocks.c3};
    unroll<4>([&](auto w) HWY_ATTR {
      HWY_ALIGN int64_t all[N];
      hn::Store(hn::VecFromMask(di, philox_below(words[w], hn::Set(di, static_cast<int64_t>(threshold)))), di, all);
      for (int64_t l = 0; l < N && i + l < 8; ++l) below[(i + l) * 4 + w] = all[l] != 0;
    });
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {

HEED_EXPORT(ExponentialsF32);
HEED_EXPORT(ExponentialsF64);
HEED_EXPORT(RoundsHalf);
HEED_EXPORT(NarrowF16);
HEED_EXPORT(NarrowBF16);
HEED_EXPORT(WidenF16);
HEED_EXPORT(WidenBF16);
HEED_EXPORT(LanesF32);
HEED_EXPORT(FourSumsF32);
HEED_EXPORT(FourSumsF64);
HEED_EXPORT(ProductByRow);
HEED_EXPORT(ProductByColumn);
HEED_EXPORT(Draw);

class OnTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { set_targets_for_test(GetParam()); }
  void TearDown() override { set_targets_for_test(0); }
};

template <class T, class F>
void expect_exponentials(double lowest, double highest, double tolerance, F&& dispatch) {
  std::vector<T> x;
  for (double at = lowest; at < highest; at += (highest - lowest) / 20011) x.push_back(static_cast<T>(at));
  const auto swept = x.size();
  const T infinite = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const T special : {T{0}, -infinite, nan, std::numeric_limits<T>::lowest(), static_cast<T>(lowest * 2)})
    x.push_back(special);
  std::vector<T> natural(x.size()), of_score(x.size());
  dispatch(x.data(), natural.data(), of_score.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < swept; ++i) {
    const auto at = static_cast<long double>(x[i]);
    EXPECT_NEAR(static_cast<double>(natural[i] / std::exp(at)), 1, tolerance) << at;
    // Its exponent x log2(e) is rounded to T.
    const double rounding = std::fabs(static_cast<double>(at)) * static_cast<double>(std::numeric_limits<T>::epsilon());
    EXPECT_NEAR(static_cast<double>(of_score[i] / std::exp(at)), 1, tolerance + rounding) << at;
  }
  for (const std::vector<T>& y : {natural, of_score}) {
    EXPECT_EQ(y[swept], 1);
    EXPECT_EQ(y[swept + 1], 0);
    EXPECT_TRUE(std::isnan(y[swept + 2]));
    EXPECT_EQ(y[swept + 3], 0);
    EXPECT_EQ(y[swept + 4], 0);
  }
}

TEST_P(OnTarget, Exponentials) {
  expect_exponentials<float>(-87, 88, 2.4e-7, HEED_DISPATCH(ExponentialsF32));
  expect_exponentials<double>(-708, 709, 4.5e-16, HEED_DISPATCH(ExponentialsF64));
}

TEST_P(OnTarget, HalvesRoundAsOneByOne) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const uint32_t lower : {0u, 1u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::vector<uint16_t> bits(x.size());
  const auto n = static_cast<int64_t>(x.size());
  HEED_DISPATCH(NarrowBF16)(x.data(), bits.data(), n);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(bits[i], to_bfloat16(x[i]).bits) << std::bit_cast<uint32_t>(x[i]);
  if (!HEED_DISPATCH(RoundsHalf)()) return;
  HEED_DISPATCH(NarrowF16)(x.data(), bits.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(to_float(float16{bits[i]})));
    else
      ASSERT_EQ(bits[i], to_float16(x[i]).bits) << std::bit_cast<uint32_t>(x[i]);
  }
}

TEST_P(OnTarget, HalvesWiden) {
  std::vector<uint16_t> bits(0xFFFF);  // odd: the last vector is partial
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> half(bits.size()), brain(bits.size());
  HEED_DISPATCH(WidenF16)(bits.data(), half.data(), static_cast<int64_t>(bits.size()));
  HEED_DISPATCH(WidenBF16)(bits.data(), brain.data(), static_cast<int64_t>(bits.size()));
  const auto expect_same = [](float a, float b) {
    if (std::isnan(b))
      ASSERT_TRUE(std::isnan(a));
    else
      ASSERT_EQ(a, b);
  };
  for (size_t i = 0; i < bits.size(); ++i) {
    expect_same(half[i], to_float(float16{bits[i]}));
    expect_same(brain[i], to_float(bfloat16{bits[i]}));
  }
}

TEST_P(OnTarget, FourSums) {
  const auto n = HEED_DISPATCH(LanesF32)();
  std::vector<float> x(static_cast<size_t>(4 * n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 37);
  const std::vector<double> wide(x.begin(), x.end());
  const auto expect = [](const auto* from, const auto* sums, int64_t lanes) {
    for (int64_t v = 0; v < 4; ++v) {
      double sum = 0;
      for (int64_t i = 0; i < lanes; ++i) sum += static_cast<double>(from[v * lanes + i]);
      EXPECT_EQ(static_cast<double>(sums[v]), sum) << v;
    }
  };
  float sums[4];
  double wide_sums[4];
  HEED_DISPATCH(FourSumsF32)(x.data(), sums);
  HEED_DISPATCH(FourSumsF64)(wide.data(), wide_sums);
  expect(x.data(), sums, n);
  expect(wide.data(), wide_sums, std::max<int64_t>(1, n / 2));
}

TEST_P(OnTarget, ProductTile) {
  const int64_t n = 2 * HEED_DISPATCH(LanesF32)();
  for (const int64_t depth : {0, 1, 7}) {
    std::vector<float> a(static_cast<size_t>(5 * 9)), b(static_cast<size_t>(depth * n)), c(static_cast<size_t>(5 * n));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * i % 13) - 6;
    const auto expect = [&](bool by_row, int64_t stride) {
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t t = 0; t < depth; ++t)
            sum += a[static_cast<size_t>(by_row ? r * stride + t : t * stride + r)] * b[static_cast<size_t>(t * n + j)];
          EXPECT_EQ(c[static_cast<size_t>(r * n + j)], sum) << r << ' ' << j;
        }
      }
    };
    HEED_DISPATCH(ProductByRow)(a.data(), 9, b.data(), depth, c.data());
    expect(true, 9);
    HEED_DISPATCH(ProductByColumn)(a.data(), 6, b.data(), depth, c.data());
    expect(false, 6);
  }
}

TEST_P(OnTarget, Philox) {
  const uint64_t first = 0xFFFFFFFCu, stream = 0x123456789ABCull, seed = 0xFEDCBA9876543210ull;
  for (const uint64_t threshold : {uint64_t{0}, uint64_t{0x5A000000}, uint64_t{1} << 32}) {
    std::array<uint8_t, 32> below{};
    HEED_DISPATCH(Draw)(first, stream, seed, threshold, below.data());
    for (uint64_t i = 0; i < 8; ++i) {
      const PhiloxCounter words =
          philox4x32({static_cast<uint32_t>(first + i), static_cast<uint32_t>((first + i) >> 32),
                      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                     philox_key(seed));
      for (size_t w = 0; w < 4; ++w) EXPECT_EQ(below[i * 4 + w], words[w] < threshold) << i << ' ' << w;
    }
  }
}

TEST(Targets, AreThoseThatHighwayWouldChooseFrom) {
  EXPECT_EQ(supported_targets(HWY_TARGETS), hwy::SupportedAndGeneratedTargets());
  EXPECT_EQ(supported_targets(0), std::vector<int64_t>());
}

INSTANTIATE_TEST_SUITE_P(Simd, OnTarget, ::testing::ValuesIn(supported_targets(HWY_TARGETS)),
                         [](const auto& of) { return std::string(hwy::TargetName(of.param)); });

}  // namespace
}  // namespace heed::inline v0
#endif
