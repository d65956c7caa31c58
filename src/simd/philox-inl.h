// Philox4x32-10 (core/philox.h) by vectors, for every target but HWY_SCALAR. Included once per target.
#if defined(HEED_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PHILOX_INL_H_
#undef HEED_SIMD_PHILOX_INL_H_
#else
#define HEED_SIMD_PHILOX_INL_H_
#endif

#include "core/philox.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

/// A vector of Philox blocks, one a 64-bit lane, of whose four words only the lower halves count: multiplication
/// ignores the upper.
struct PhiloxBlocks {
  using D = Lanes<uint64_t>;
  using V = Vec<uint64_t>;
  V c0, c1, c2, c3;

  HWY_INLINE void round(V k0, V k1) {
    const hn::Repartition<uint32_t, D> d32;
    const V p0 = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, kPhiloxM0));
    const V p1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, kPhiloxM1));
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), k0);
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), k1);
    c1 = p1;
    c3 = p0;
  }
};

/// Turns the counters in `blocks` into draws. Several at a time hide the latency of the multiplications.
template <class... Blocks>
HWY_INLINE void philox_draw(PhiloxKey key, Blocks&... blocks) {
  const Lanes<uint64_t> d;
  for (int round = 0; round < 10; ++round) {
    const auto k0 = hn::Set(d, uint64_t{key[0]}), k1 = hn::Set(d, uint64_t{key[1]});
    (blocks.round(k0, k1), ...);
    key = {key[0] + kPhiloxW0, key[1] + kPhiloxW1};
  }
}

/// Where a word is below the threshold, as a mask of signed lanes: these every target compares.
HWY_INLINE auto philox_below(Vec<uint64_t> word, Vec<int64_t> threshold) {
  const Lanes<int64_t> d;
  return hn::Lt(hn::BitCast(d, hn::And(word, hn::Set(Lanes<uint64_t>(), 0xFFFFFFFFu))), threshold);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_SIMD_PHILOX_INL_H_
