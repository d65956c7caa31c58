// Numbers of quantised blocks as vectors of floats, for every target. Included once per target.
//
// A number is an integer of few bits times a factor, plus an offset. The product has at most 24 bits, so that float32
// holds it and a multiply-add rounds as a product and a sum do: all targets have the same bits.
#if defined(HEED_SIMD_QUANTISED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_QUANTISED_INL_H_
#undef HEED_SIMD_QUANTISED_INL_H_
#else
#define HEED_SIMD_QUANTISED_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/quantised.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

constexpr int64_t kPart = 32;  // numbers that are widened together: a block or a part of one

/// The factor of a block of Q8_0 in every lane.
HWY_INLINE Vec<float> scale_of(const q8_block& block) {
  const auto* const scale = reinterpret_cast<const hwy::float16_t*>(&block);  // what is behind it is read, too
  if constexpr (kConverts<hwy::float16_t>) {
    const hn::CappedTag<float, 4> few;
    return hn::Set(Lanes<float>(),
                   hn::GetLane(hn::PromoteTo(few, hn::LoadU(hn::Rebind<hwy::float16_t, decltype(few)>(), scale))));
  } else {
    return hn::Set(Lanes<float>(), hn::GetLane(load_as<float>(scale)));
  }
}
/// A vector of the block's numbers from the i-th on. A product of 8 and 11 bits is exact.
HWY_INLINE Vec<float> numbers_of(const q8_block& block, int64_t i, Vec<float> scale) {
  const Lanes<float> d;
  const auto integers = hn::LoadU(hn::Rebind<int8_t, Lanes<float>>(), block.numbers + i);
  return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<Lanes<float>>(), integers)), scale);
}

// The blocks of llama.cpp's ggml-common.h.

HWY_INLINE float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  if constexpr (kConverts<hwy::float16_t>) {
    const hn::CappedTag<float, 4> few;
    const hn::Rebind<uint16_t, decltype(few)> d16;
    return hn::GetLane(
        hn::PromoteTo(few, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(few)>(), hn::Set(d16, bits))));
  } else {
    return to_float(float16{bits});
  }
}

using Integers = hn::RebindToSigned<Lanes<float>>;
HWY_INLINE hn::Vec<Integers> bytes_at(const uint8_t* at) {
  return hn::PromoteTo(Integers(), hn::LoadU(hn::Rebind<uint8_t, Lanes<float>>(), at));
}
HWY_INLINE hn::Vec<Integers> bits_of(hn::Vec<Integers> bytes, int shift, int mask) {
  return hn::And(hn::ShiftRightSame(bytes, shift), hn::Set(Integers(), mask));
}
// to[0, count) = factor * integers(i) + offset, for each vector from number i on.
template <class F>
HWY_INLINE void store_part(int64_t count, float factor, float offset, float* HWY_RESTRICT to, F&& integers) {
  const Lanes<float> d;
  const Vec<float> scale = hn::Set(d, factor), add = hn::Set(d, offset);
  for (int64_t i = 0; i < count; i += lanes<float>())
    hn::StoreU(hn::MulAdd(scale, hn::ConvertTo(d, integers(i)), add), d, to + i);
}

// A factor, and a minimum, or the middle of what 4 or 5 bits hold. Halves of bytes: the lower ones are the first half
// of the numbers; the fifth bits stand together before them.
template <bool kMinimum, bool kFive>
HWY_INLINE void widen_32(const uint8_t* block, float* HWY_RESTRICT to) {
  const Integers di;
  const float factor = half_at(block), minimum = kMinimum ? half_at(block + 2) : 0;
  const auto middle = hn::Set(di, kMinimum ? 0 : kFive ? 16 : 8);
  const uint8_t* const numbers = block + (kMinimum ? 4 : 2) + (kFive ? 4 : 0);
  uint32_t fifth = 0;
  if (kFive) std::memcpy(&fifth, numbers - 4, sizeof fifth);
  for (int half = 0; half < 2; ++half)
    store_part(kPart / 2, factor, minimum, to + half * 16, [&](int64_t i) HWY_ATTR {
      auto q = bits_of(bytes_at(numbers + i), 4 * half, 15);
      if constexpr (kFive) {
        const auto bit = hn::And(
            hn::Shr(hn::Set(di, static_cast<int>(fifth >> 16 * half & 0xFFFF)), count_from(di, static_cast<int>(i))),
            hn::Set(di, 1));
        q = hn::Or(q, hn::ShiftLeft<4>(bit));
      }
      return hn::Sub(q, middle);
    });
}

// Q4_K and Q5_K: eight parts, two of which share bytes, with 6 bits each for factor and minimum in 12 bytes: those of
// the first four parts are the lower bits of bytes 0 to 3 and 4 to 7; the others have 4 bits in the halves of bytes 8
// to 11, and their upper 2 bits above those of the first.
template <bool kFive>
HWY_INLINE void widen_k(const uint8_t* block, int begin, int end, float* HWY_RESTRICT to) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const uint8_t *const fifth = block + 16, *const numbers = fifth + (kFive ? 32 : 0);
  uint32_t packed[3];
  std::memcpy(packed, block + 4, sizeof packed);
  const uint32_t bytes[4] = {packed[0] & 0x3F3F3F3F, (packed[2] & 0x0F0F0F0F) | (packed[0] >> 2 & 0x30303030),
                             packed[1] & 0x3F3F3F3F, (packed[2] >> 4 & 0x0F0F0F0F) | (packed[1] >> 2 & 0x30303030)};
  HWY_ALIGN float factors[16];  // then the minima
  for (int64_t i = 0; i < 16; i += lanes<float>()) {
    const Lanes<float> df;
    hn::Store(hn::ConvertTo(df, bytes_at(reinterpret_cast<const uint8_t*>(bytes) + i)), df, factors + i);
  }
  for (int part = begin; part < end; ++part, to += kPart) {
    const uint8_t* const at = numbers + part / 2 * 32;
    store_part(kPart, d * factors[part], -(dmin * factors[8 + part]), to, [&](int64_t i) HWY_ATTR {
      const auto q = bits_of(bytes_at(at + i), part % 2 * 4, 15);
      if constexpr (!kFive) return q;
      return hn::Or(q, hn::ShiftLeft<4>(bits_of(bytes_at(fifth + i), part, 1)));
    });
  }
}

// Q6_K: two halves of 128, each of four parts, whose lower 4 bits share 64 bytes and whose upper 2 bits share 32; a
// factor for 16 numbers.
HWY_INLINE void widen_q6_k(const uint8_t* block, int begin, int end, float* HWY_RESTRICT to) {
  const float d = half_at(block + 208);
  for (int part = begin; part < end; ++part) {
    const int half = part / 4, quarter = part % 4;
    const uint8_t* const lower = block + 64 * half + quarter % 2 * 32;
    const uint8_t* const upper = block + 128 + 32 * half;
    for (int f = 0; f < 2; ++f, to += 16)
      store_part(16, d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * part + f])), 0, to,
                 [&](int64_t i) HWY_ATTR {
                   const auto low = bits_of(bytes_at(lower + 16 * f + i), quarter / 2 * 4, 15);
                   const auto high = bits_of(bytes_at(upper + 16 * f + i), 2 * quarter, 3);
                   return hn::Sub(hn::Or(low, hn::ShiftLeft<4>(high)), hn::Set(Integers(), 32));
                 });
  }
}

/// to[0, count) = the numbers from there on; count is a multiple of 32.
inline void widen(const Quantised& from, int64_t count, float* HWY_RESTRICT to) {
  const uint8_t* block = from.block();
  const auto each = [&](auto&& part) HWY_ATTR {
    for (const float* const end = to + count; to != end; to += kPart, block += from.bytes) part();
  };
  const auto parts = [&](auto&& some) HWY_ATTR {
    auto begin = static_cast<int>(from.first % 256 / kPart);
    for (int64_t left = count / kPart; left > 0; begin = 0, block += from.bytes) {
      const int end = static_cast<int>(std::min<int64_t>(8, begin + left));
      some(begin, end);
      to += (end - begin) * kPart, left -= end - begin;
    }
  };
  switch (from.dtype) {
    case DType::q8:
      return each([&]() HWY_ATTR {
        const auto& q8 = *reinterpret_cast<const q8_block*>(block);
        const Vec<float> scale = scale_of(q8);
        for (int64_t i = 0; i < kPart; i += lanes<float>())
          hn::StoreU(numbers_of(q8, i, scale), Lanes<float>(), to + i);
      });
    case DType::q4_0:
      return each([&]() HWY_ATTR { widen_32<false, false>(block, to); });
    case DType::q4_1:
      return each([&]() HWY_ATTR { widen_32<true, false>(block, to); });
    case DType::q5_0:
      return each([&]() HWY_ATTR { widen_32<false, true>(block, to); });
    case DType::q5_1:
      return each([&]() HWY_ATTR { widen_32<true, true>(block, to); });
    case DType::q4_k:
      return parts([&](int begin, int end) HWY_ATTR { widen_k<false>(block, begin, end, to); });
    case DType::q5_k:
      return parts([&](int begin, int end) HWY_ATTR { widen_k<true>(block, begin, end, to); });
    case DType::q6_k:
      return parts([&](int begin, int end) HWY_ATTR { widen_q6_k(block, begin, end, to); });
    default:
      return;  // no other dtype has blocks
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
