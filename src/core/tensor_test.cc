#include "heed/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/memory.h"
#include "core/philox.h"

namespace heed {
namespace {

TEST(Tensor, OwnsAlignedRowMajorMemory) {
  const Tensor t = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
  EXPECT_EQ(t.strides(), (Dims{3, 1}));
  EXPECT_EQ(t.at<float>(1, 2), 6.f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u);
  EXPECT_THROW(t.data<double>(), ShapeError);
  EXPECT_THROW(Tensor::from({1.f}, {2}), ShapeError);
}

TEST(Tensor, ViewsShareMemoryAndCopiesDoNot) {
  const Tensor t = Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3}).to(DType::f64);
  const Tensor column = t.transpose(0, 1).select(0, 1);  // the second column
  EXPECT_EQ(column.shape(), (Dims{2}));
  EXPECT_EQ(column.at<double>(1), 5.0);
  const Tensor copy = column.contiguous();
  column.fill(9);
  EXPECT_EQ(t.at<double>(0, 1), 9.0);
  EXPECT_EQ(copy.at<double>(0), 2.0);
  EXPECT_FALSE(t.transpose(0, 1).is_contiguous());
  EXPECT_EQ(t.transpose(0, 1).reshape({6}).at<double>(1), 4.0);
}

TEST(Tensor, ReshapeInfersOneSizeAndRefusesTheRest) {
  const Tensor t = Tensor::zeros({4, 6});
  EXPECT_EQ(t.reshape({2, -1}).shape(), (Dims{2, 12}));
  EXPECT_THROW(t.reshape({5, -1}), ShapeError);
  EXPECT_THROW(t.reshape({-1, -1}), ShapeError);
  EXPECT_THROW(t.slice(0, 2, 5), ShapeError);
  EXPECT_THROW(t.size(2), ShapeError);
}

TEST(Tensor, ExpandBroadcastsFromTheRight) {
  const Tensor t = Tensor::from({1.f, 2.f}, {2, 1}).expand({3, 2, 4});
  EXPECT_EQ(t.strides(), (Dims{0, 1, 0}));
  EXPECT_EQ(t.at<float>(2, 1, 3), 2.f);
  EXPECT_THROW(Tensor::zeros({3}).expand({4}), ShapeError);
}

TEST(Tensor, RefusesShapesThatOverflow) {
  EXPECT_THROW(Tensor::empty({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  EXPECT_THROW(Tensor::empty({int64_t{1} << 62}), ShapeError);  // the bytes overflow, not the count
  EXPECT_THROW(Tensor::empty({-1}), ShapeError);
  EXPECT_EQ(Tensor::empty({0, int64_t{1} << 62}).numel(), 0);
}

TEST(Tensor, SizesWithoutElementsDoNotOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  for (const Dims& shape : {Dims{kLarge, kLarge, 0}, {0, kLarge, kLarge}, {kLarge, 0, kLarge, kLarge}}) {
    const Tensor t = Tensor::empty(shape);
    EXPECT_EQ(t.numel(), 0);
    EXPECT_TRUE(t.is_contiguous());
    EXPECT_TRUE(t.clone().shape() == shape);
  }
  const Tensor one = Tensor::empty({6});
  constexpr int64_t kMost = int64_t{1} << 62;
  for (const Dims& shape : {Dims{kMost, 4, -1}, {-1, kMost, 4}, {kMost, kMost, 3}, {-1, kMost, kMost, 0}})
    EXPECT_THROW(one.reshape(shape), ShapeError) << to_string(shape);
}

TEST(Tensor, SaysHowMuchMemoryIsNotToBeHad) {
  try {
    Tensor::empty({int64_t{1} << 45});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("memory: 140737488355328 bytes more are not to be had, "))
        << e.what();
    EXPECT_TRUE(dynamic_cast<const MemoryError*>(&e));
  }
  EXPECT_EQ(Tensor::zeros({3}).numel(), 3);
}

TEST(Tensor, HalfPrecisionRoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float16 h{static_cast<uint16_t>(bits)};
    const float f = to_float(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(f))));
    } else {
      EXPECT_EQ(to_float16(f).bits, bits);
    }
  }
  EXPECT_EQ(to_float(to_float16(65519.f)), 65504.f);
  EXPECT_TRUE(std::isinf(to_float(to_float16(65520.f))));
  EXPECT_EQ(to_float(to_float16(0x1p-25f)), 0.f);  // a tie goes to even
  EXPECT_EQ(to_float(to_float16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(to_float(to_bfloat16(1.00390625f)), 1.f);  // a tie goes to even
}

TEST(Tensor, ConvertsBetweenTypes) {
  const Tensor t = Tensor::from({1.5, -2.25}, {2});
  EXPECT_EQ(t.to(DType::f16).to(DType::f32).at<float>(1), -2.25f);
  EXPECT_EQ(t.to(DType::i32).at<int32_t>(0), 1);
  EXPECT_EQ(Tensor::full({1}, 3).item(), 3.0);
  EXPECT_THROW(t.item(), ShapeError);
}

// Rows of two blocks, the first of zeros.
std::vector<float> rows_for_blocks(int64_t rows) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < rows * 64; ++i)
    numbers.push_back(i % 64 < 32 ? 0
                                  : std::sin(static_cast<float>(i)) * std::pow(10.f, static_cast<float>(i / 64 - 1)));
  return numbers;
}

TEST(TensorBlocks, HoldNumbersToAPartOfTheLargestBesideThem) {
  const Tensor t = Tensor::from(rows_for_blocks(6), {6, 64}), kept = t.to(DType::q8), back = kept.to(DType::f32);
  EXPECT_EQ(kept.dtype(), DType::q8);
  EXPECT_EQ(kept.nbytes(), 6 * 2 * 34);
  EXPECT_STREQ(name_of(DType::q8), "q8");
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t i = 0; i < 64; ++i) {
      float largest = 0;
      for (int64_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j)
        largest = std::max(largest, std::abs(t.at<float>(row, j)));
      // Half of a step of largest / 127, whose own rounding to 11 bits counts up to 127 times.
      EXPECT_NEAR(back.at<float>(row, i), t.at<float>(row, i), largest * (0.5f / 127 + 0x1p-11f)) << row << ' ' << i;
    }
  // What blocks stand for, they keep; a number is the factor, in 11 bits, times an integer.
  EXPECT_EQ(std::memcmp(back.to(DType::q8).raw(), kept.raw(), 6 * 2 * 34), 0);
  const auto* const block = static_cast<const q8_block*>(kept.raw()) + 3;
  EXPECT_EQ(back.at<float>(1, 37), to_float(block->scale) * block->numbers[5]);
  EXPECT_EQ(kept.to(DType::f16).to(DType::f32).at<float>(1, 37), to_float(to_float16(back.at<float>(1, 37))));
  EXPECT_EQ(Tensor::zeros({2, 32}, DType::q8).to(DType::f32).at<float>(1, 31), 0);
}

TEST(TensorBlocks, AreWholeInEveryView) {
  const Tensor t = Tensor::from(rows_for_blocks(6), {6, 64}).to(DType::q8), wide = t.to(DType::f32);
  const auto expect_same = [](const Tensor& blocks, const Tensor& numbers) {
    const Tensor got = blocks.to(DType::f32);
    ASSERT_EQ(got.shape(), numbers.shape());
    EXPECT_EQ(std::memcmp(got.raw(), numbers.contiguous().raw(), static_cast<size_t>(got.nbytes())), 0);
  };
  expect_same(t.slice(0, 2, 5), wide.slice(0, 2, 5));
  expect_same(t.slice(1, 32, 64), wide.slice(1, 32, 64));
  expect_same(t.select(0, 4), wide.select(0, 4));
  expect_same(t.reshape({3, 2, 64}).transpose(0, 1).contiguous(), wide.reshape({3, 2, 64}).transpose(0, 1));
  expect_same(t.reshape({12, 32}), wide.reshape({12, 32}));
  const Tensor turned = Tensor::from(rows_for_blocks(32), {32, 64}).transpose(0, 1);  // to blocks, by columns
  expect_same(turned.to(DType::q8), turned.contiguous().to(DType::q8).to(DType::f32));
  EXPECT_THROW(t.slice(1, 16, 48), ShapeError);
  EXPECT_THROW(t.slice(1, 0, 33), ShapeError);
  EXPECT_THROW(t.select(1, 0), ShapeError);
  EXPECT_THROW(t.reshape({64, 6}), ShapeError);
  EXPECT_THROW(t.transpose(0, 1).contiguous(), ShapeError);
  EXPECT_THROW(Tensor::empty({2, 33}, DType::q8), ShapeError);
  EXPECT_THROW(Tensor::empty({}, DType::q8), ShapeError);
  EXPECT_THROW(Tensor::empty({INT64_MAX / 32, 32}, DType::q8), ShapeError);
  EXPECT_THROW(t.fill(1), ShapeError);
  EXPECT_THROW(t.data<int8_t>(), ShapeError);
  EXPECT_THROW(size_of(DType::q8), ShapeError);
  EXPECT_FALSE(is_floating(DType::q8));
}

TEST(TensorBlocks, OfOtherTypesAreReadAlone) {
  for (const auto& [dtype, width, bytes] : {std::tuple{DType::q4_0, int64_t{32}, int64_t{18}},
                                            {DType::q4_1, 32, 20},
                                            {DType::q5_0, 32, 22},
                                            {DType::q5_1, 32, 24},
                                            {DType::q4_k, 256, 144},
                                            {DType::q5_k, 256, 176},
                                            {DType::q6_k, 256, 210}}) {
    const Tensor t = Tensor::zeros({3, 2 * width}, dtype);
    EXPECT_EQ(t.nbytes(), 6 * bytes) << name_of(dtype);
    EXPECT_EQ(t.to(DType::q8).to(DType::f32).at<float>(2, 5), 0);
    EXPECT_EQ(t.slice(1, width, 2 * width).slice(0, 1, 3).contiguous().nbytes(), 2 * bytes);
    EXPECT_THROW(t.slice(1, 0, width / 2), ShapeError);
    EXPECT_THROW(Tensor::zeros({3, 2 * width}).to(dtype), ShapeError);
    EXPECT_THROW(Tensor::empty({2, width + 16}, dtype), ShapeError);
    EXPECT_THROW(size_of(dtype), ShapeError);
    EXPECT_FALSE(is_floating(dtype));
  }
}

TEST(TensorBlocks, WhatIsNotFiniteMakesItsBlockNaN) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY, 1e9f}) {  // 1e9 / 127 is past float16
    Tensor t = Tensor::full({2, 32}, 127);
    t.at<float>(1, 7) = bad;
    const Tensor back = t.to(DType::q8).to(DType::f32);
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(back.at<float>(0, i), 127);
      EXPECT_TRUE(std::isnan(back.at<float>(1, i))) << bad;
    }
  }
}

TEST(Memory, HandsFreedBlocksOutAgain) {
  void* first = Tensor::empty({1000}).raw();
  EXPECT_EQ(Tensor::empty({1001}).raw(), first);  // the same size class
  const size_t before = memory_in_use();
  reset_peak_memory();
  { const Tensor t = Tensor::empty({1 << 20}); }
  EXPECT_EQ(memory_in_use(), before);
  EXPECT_GE(peak_memory(), before + (4u << 20));
}

TEST(Memory, ALargerFreedBlockServesASmallerRequest) {
  release_cached_memory();
  void* large = Tensor::empty({3 << 20}).raw();
  const size_t misses = memory_misses();
  EXPECT_EQ(Tensor::empty({(3 << 20) * 3 / 4}).raw(), large);
  EXPECT_EQ(memory_misses(), misses);
  EXPECT_NE(Tensor::empty({3 << 18}).raw(), large);  // a quarter of it would waste the rest
  EXPECT_EQ(memory_misses(), misses + 1);
}

// Known answers published with the generator (Random123, kat_vectors).
TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

}  // namespace
}  // namespace heed
