#include "core/quantised.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/testing.h"
#include "kernels/testing.h"

namespace heed {
namespace {

// Of one block, on every target the same, whatever part of it is asked for.
std::vector<float> numbers_of(DType dtype, std::string block) {
  const int64_t size = block_of(dtype);
  EXPECT_EQ(static_cast<int64_t>(block.size()), bytes_of(dtype, size));
  block += block;
  const Quantised two(Tensor::borrow(block.data(), dtype, {2 * size}));
  std::vector<float> numbers;
  test::on_each_target([&] {
    std::vector<float> now(static_cast<size_t>(2 * size));
    dequantise(two, 2 * size, now.data());
    if (numbers.empty()) numbers = now;
    EXPECT_EQ(now, numbers) << name_of(dtype);
    for (int64_t begin = 0; begin < 2 * size; begin += 32)
      for (int64_t end = begin + 32; end <= 2 * size; end += 32) {
        std::vector<float> some(static_cast<size_t>(end - begin));
        dequantise(element(two, begin), end - begin, some.data());
        EXPECT_EQ(some, std::vector<float>(numbers.begin() + begin, numbers.begin() + end)) << begin << " to " << end;
      }
  });
  for (int64_t i = 0; i < size; ++i)
    EXPECT_EQ(numbers[static_cast<size_t>(size + i)], numbers[static_cast<size_t>(i)]) << name_of(dtype);
  return numbers;
}

std::string half(float x) { return GgufBytes::bytes_of(to_float16(x).bits); }

// By the definitions in ggml-common.h: a number, its bits put where the type has them.
TEST(Quantised, BlocksOf32) {
  std::string nibbles;  // number i is i % 16, number 16 + i is 15 - i
  for (int i = 0; i < 16; ++i) nibbles += static_cast<char>(i | (15 - i) << 4);
  const std::string fifth = GgufBytes::bytes_of(0x80000001u);  // of the first and the last
  const auto expect = [&](DType type, const std::string& block, float factor, float offset, bool five) {
    const std::vector<float> numbers = numbers_of(type, block);
    for (int i = 0; i < 32; ++i) {
      const int q = (i < 16 ? i : 31 - i) + (five && (i == 0 || i == 31) ? 16 : 0);
      EXPECT_EQ(numbers[static_cast<size_t>(i)], factor * static_cast<float>(q) + offset) << name_of(type) << " " << i;
    }
  };
  expect(DType::q4_0, half(0.25f) + nibbles, 0.25f, -8 * 0.25f, false);
  expect(DType::q4_1, half(0.25f) + half(3) + nibbles, 0.25f, 3, false);
  expect(DType::q5_0, half(-2) + fifth + nibbles, -2, 32, true);
  expect(DType::q5_1, half(0.5f) + half(-1) + fifth + nibbles, 0.5f, -1, true);
}

TEST(Quantised, BlocksOf256) {
  // Factor of part p: 8p + 1, minimum 63 - p; 6 bits each, the upper two of parts 4 to 7 in the bytes of parts 0 to 3.
  std::string packed(12, '\0');
  for (int p = 0; p < 8; ++p) {
    const int factor = 8 * p + 1 > 63 ? 63 : 8 * p + 1, minimum = 63 - p;
    if (p < 4) {
      packed[static_cast<size_t>(p)] |= static_cast<char>(factor);
      packed[static_cast<size_t>(p + 4)] |= static_cast<char>(minimum);
    } else {
      packed[static_cast<size_t>(p + 4)] = static_cast<char>((factor & 15) | (minimum & 15) << 4);
      packed[static_cast<size_t>(p - 4)] |= static_cast<char>(factor >> 4 << 6);
      packed[static_cast<size_t>(p)] |= static_cast<char>(minimum >> 4 << 6);
    }
  }
  std::string numbers(128, '\0'), fifth(32, '\0');
  const auto q = [](int i) { return i * 7 % 32; };
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32, at = i % 32;
    numbers[static_cast<size_t>(part / 2 * 32 + at)] |= static_cast<char>((q(i) & 15) << (part % 2 * 4));
    fifth[static_cast<size_t>(at)] |= static_cast<char>(q(i) >> 4 << part);
  }
  const std::string head = half(0.5f) + half(0.25f) + packed;
  for (const bool five : {false, true}) {
    const std::vector<float> got = numbers_of(five ? DType::q5_k : DType::q4_k, head + (five ? fifth : "") + numbers);
    for (int i = 0; i < 256; ++i) {
      const int part = i / 32, number = five ? q(i) : q(i) & 15;
      const float factor = 0.5f * static_cast<float>(8 * part + 1), minimum = 0.25f * static_cast<float>(63 - part);
      EXPECT_EQ(got[static_cast<size_t>(i)], factor * static_cast<float>(number) - minimum) << i;
    }
  }

  std::string lower(128, '\0'), upper(64, '\0'), factors;
  const auto six = [](int i) { return i * 11 % 64; };
  for (int i = 0; i < 256; ++i) {
    const int half_of = i / 128, quarter = i % 128 / 32, at = i % 32;
    lower[static_cast<size_t>(half_of * 64 + quarter % 2 * 32 + at)] |=
        static_cast<char>((six(i) & 15) << (quarter / 2 * 4));
    upper[static_cast<size_t>(half_of * 32 + at)] |= static_cast<char>(six(i) >> 4 << (quarter * 2));
  }
  for (int f = 0; f < 16; ++f) factors += static_cast<char>(f * 9 - 70);
  const std::vector<float> got = numbers_of(DType::q6_k, lower + upper + factors + half(0.125f));
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(got[static_cast<size_t>(i)],
              0.125f * static_cast<float>(i / 16 * 9 - 70) * static_cast<float>(six(i) - 32))
        << i;
}

}  // namespace
}  // namespace heed
