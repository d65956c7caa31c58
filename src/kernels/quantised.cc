#include "kernels/quantised.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantised.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "simd/vector-inl.h"

#ifndef HEED_KERNELS_QUANTISED_ONCE
#define HEED_KERNELS_QUANTISED_ONCE
namespace heed::inline v0 {
namespace {

constexpr int kLargestBlock = 256, kPart = 16;  // a factor and an offset are of 16 numbers at least

// A block taken apart: number i is q[i] times the factor of its part, plus its offset.
struct Parts {
  alignas(64) int8_t q[kLargestBlock];
  float factor[kLargestBlock / kPart], offset[kLargestBlock / kPart];
};

float half_at(const uint8_t* at) {
  float16 half{};
  std::memcpy(&half, at, sizeof half);
  return to_float(half);
}

int8_t low(uint8_t byte) { return static_cast<int8_t>(byte & 15); }
int8_t high(uint8_t byte) { return static_cast<int8_t>(byte >> 4); }

// The blocks of llama.cpp's ggml-common.h. Numbers of 4 bits stand in pairs: the lower halves of bytes are the first
// half of the numbers.

void q8_0(const uint8_t* block, Parts& to) {
  std::memcpy(to.q, block + 2, 32);
  std::fill_n(to.factor, 2, half_at(block));
  std::fill_n(to.offset, 2, 0.0f);
}

// Q4_0, Q4_1, Q5_0 and Q5_1: a factor, a minimum or the middle of the range, and where there is one the fifth bit.
void of_32(const uint8_t* block, bool has_minimum, bool five_bits, Parts& to) {
  std::fill_n(to.factor, 2, half_at(block));
  std::fill_n(to.offset, 2, has_minimum ? half_at(block + 2) : 0.0f);
  const uint8_t* at = block + (has_minimum ? 4 : 2);
  uint32_t fifth = 0;
  if (five_bits) {
    std::memcpy(&fifth, at, sizeof fifth);
    at += sizeof fifth;
  }
  const auto middle = static_cast<int8_t>(has_minimum ? 0 : five_bits ? 16 : 8);
  for (int i = 0; i < 16; ++i) {
    to.q[i] = static_cast<int8_t>(low(at[i]) - middle);
    to.q[16 + i] = static_cast<int8_t>(high(at[i]) - middle);
  }
  if (five_bits)
    for (int i = 0; i < 32; ++i) to.q[i] = static_cast<int8_t>(to.q[i] + static_cast<int8_t>((fifth >> i & 1) << 4));
}

// Of part i of eight: 6 bits for the factor and 6 for the minimum, packed in 12 bytes.
std::pair<float, float> factors(const uint8_t* packed, int i) {
  if (i < 4) return {static_cast<float>(packed[i] & 63), static_cast<float>(packed[i + 4] & 63)};
  const int d = low(packed[i + 4]) | packed[i - 4] >> 6 << 4, m = high(packed[i + 4]) | packed[i] >> 6 << 4;
  return {static_cast<float>(d), static_cast<float>(m)};
}

// Q4_K and Q5_K: eight parts of 32, two of which share bytes.
void q4_k_or_q5_k(const uint8_t* block, bool five_bits, Parts& to) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const uint8_t* const fifth = block + 16;
  const uint8_t* const numbers = fifth + (five_bits ? 32 : 0);
  for (int part = 0; part < 8; ++part) {
    const auto [factor, minimum] = factors(block + 4, part);
    std::fill_n(to.factor + 2 * part, 2, d * factor);
    std::fill_n(to.offset + 2 * part, 2, -(dmin * minimum));
    int8_t* const q = to.q + 32 * part;
    const uint8_t* const at = numbers + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(at[i] >> shift & 15);
    for (int i = 0; five_bits && i < 32; ++i) q[i] = static_cast<int8_t>(q[i] | (fifth[i] >> part & 1) << 4);
  }
}

// Two halves of 128: four quarters, whose lower 4 bits share 64 bytes and whose upper 2 bits share 32; a factor for 16.
void q6_k(const uint8_t* block, Parts& to) {
  const float d = half_at(block + 208);
  for (int part = 0; part < 8; ++part) {
    const int half = part / 4, quarter = part % 4;
    const uint8_t* const lower = block + 64 * half + quarter % 2 * 32;
    const uint8_t* const upper = block + 128 + 32 * half;
    const int shift = quarter / 2 * 4;
    int8_t* const q = to.q + 32 * part;
    for (int i = 0; i < 32; ++i)
      q[i] = static_cast<int8_t>(((lower[i] >> shift & 15) | (upper[i] >> 2 * quarter & 3) << 4) - 32);
  }
  for (int part = 0; part < 16; ++part) {
    to.factor[part] = d * static_cast<float>(static_cast<int8_t>(block[192 + part]));
    to.offset[part] = 0;
  }
}

void take_apart(std::string_view type, const uint8_t* block, Parts& to) {
  if (type == "Q8_0") return q8_0(block, to);
  if (type == "Q6_K") return q6_k(block, to);
  if (type == "Q4_K" || type == "Q5_K") return q4_k_or_q5_k(block, type == "Q5_K", to);
  of_32(block, type.ends_with('1'), type.starts_with("Q5"), to);
}

}  // namespace
}  // namespace heed::inline v0
#endif

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void PutTogether(const Parts& parts, int64_t elements, float16* to) {
  const Lanes<float> d;
  const hn::RebindToSigned<Lanes<float>> di;
  const hn::Rebind<int8_t, Lanes<float>> d8;
  for (int64_t i = 0; i < elements; i += lanes<float>()) {
    const auto q = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, parts.q + i)));
    const auto x = hn::Add(hn::Mul(hn::Set(d, parts.factor[i / kPart]), q), hn::Set(d, parts.offset[i / kPart]));
    if constexpr (kConverts<hwy::float16_t>) {
      store_as<float>(x, reinterpret_cast<hwy::float16_t*>(to + i));
    } else {
      HWY_ALIGN float wide[hn::MaxLanes(d)];
      hn::Store(x, d, wide);
      std::transform(wide, wide + lanes<float>(), to + i, to_float16);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {
HEED_EXPORT(PutTogether);
}

void dequantise(const GgufType& type, const std::byte* from, int64_t blocks, float16* to) {
  const auto put_together = HEED_DISPATCH(PutTogether);
  Parts parts;
  for (int64_t b = 0; b < blocks; ++b) {
    take_apart(type.name, reinterpret_cast<const uint8_t*>(from) + b * type.bytes, parts);
    put_together(parts, type.elements, to + b * type.elements);
  }
}

}  // namespace heed::inline v0
#endif
