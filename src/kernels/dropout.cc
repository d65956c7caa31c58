#include "kernels/dropout.h"

#include "core/philox.h"
#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// A vector of Philox blocks, one a 64-bit lane, of which only the lower halves count: multiplication ignores the upper.
template <class V>
struct Philox {
  template <class D>
  HWY_INLINE Philox(D d, uint64_t first, uint64_t stream)
      : c0(hn::Iota(d, first)), c1(hn::ShiftRight<32>(c0)), c2(hn::Set(d, stream)), c3(hn::Set(d, stream >> 32)) {}
  template <class V32>
  HWY_INLINE void Round(V32 m0, V32 m1, V k0, V k1) {
    const hn::DFromV<V32> d32;
    const V p0 = hn::MulEven(hn::BitCast(d32, c0), m0), p1 = hn::MulEven(hn::BitCast(d32, c2), m1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), k0);
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), k1);
    c1 = p1;
    c3 = p0;
  }
  // Stores for each word, in the order of the elements, whether it is below the limit.
  template <class VI>
  HWY_INLINE void StoreBelow(VI limit, uint32_t* HWY_RESTRICT mask) const {
    const hn::DFromV<V> d;
    const hn::DFromV<VI> di;
    const hn::Repartition<uint32_t, decltype(d)> d32;
    const V low = hn::Set(d, 0xFFFFFFFFu);
    const auto below = [&](V word) HWY_ATTR {  // as signed numbers, which every target compares
      return hn::BitCast(d32, hn::VecFromMask(di, hn::Lt(hn::BitCast(di, hn::And(word, low)), limit)));
    };
    const V words01 = hn::BitCast(d, hn::OddEven(below(c1), below(c0)));
    const V words23 = hn::BitCast(d, hn::OddEven(below(c3), below(c2)));
    hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<uint64_t*>(mask));
  }
  V c0, c1, c2, c3;
};

#endif

// mask[4 * i + w]: all bits set where word w of counter first + i is below the threshold, else 0. Whole vectors are
// written, up to kPast elements past the last.
void KeepMask(uint64_t first, uint64_t stream, uint64_t seed, uint64_t threshold, int64_t counters,
              uint32_t* HWY_RESTRICT mask) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < counters; ++i) {
    const uint64_t c = first + static_cast<uint64_t>(i);
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(c), static_cast<uint32_t>(c >> 32),
                                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                           philox_key(seed));
    for (size_t w = 0; w < 4; ++w) mask[4 * i + static_cast<int64_t>(w)] = words[w] < threshold ? ~0u : 0u;
  }
#else
  const hn::ScalableTag<uint64_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m0 = hn::Set(d32, kPhiloxM0), m1 = hn::Set(d32, kPhiloxM1);
  const auto limit = hn::Set(di, static_cast<int64_t>(threshold));
  // Four vectors at a time hide the latency of the multiplications.
  for (int64_t i = 0; i < counters; i += 4 * lanes) {
    const auto at = [&](int64_t v) { return first + static_cast<uint64_t>(i + v * lanes); };
    Philox<V> a(d, at(0), stream), b(d, at(1), stream), c(d, at(2), stream), e(d, at(3), stream);
    PhiloxKey key = philox_key(seed);
    for (int round = 0; round < 10; ++round) {
      const V k0 = hn::Set(d, uint64_t{key[0]}), k1 = hn::Set(d, uint64_t{key[1]});
      a.Round(m0, m1, k0, k1);
      b.Round(m0, m1, k0, k1);
      c.Round(m0, m1, k0, k1);
      e.Round(m0, m1, k0, k1);
      key = {key[0] + kPhiloxW0, key[1] + kPhiloxW1};
    }
    a.StoreBelow(limit, mask + 4 * i);
    b.StoreBelow(limit, mask + 4 * (i + lanes));
    c.StoreBelow(limit, mask + 4 * (i + 2 * lanes));
    e.StoreBelow(limit, mask + 4 * (i + 3 * lanes));
  }
#endif
}

// y = x * factor where the mask is set, else 0, plus the residual where there is one.
void Apply(const float* x, const float* residual, const uint32_t* mask, float factor, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto vfactor = hn::Set(d, factor);
  const float* const bits = reinterpret_cast<const float*>(mask);  // only ever loaded into vectors
  ForVectors(d, n, [&](auto load, auto store, auto) HWY_ATTR {
    const auto kept = hn::And(hn::Mul(load(x), vfactor), load(bits));
    store(residual ? hn::Add(load(residual), kept) : kept, y);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {

HWY_EXPORT(KeepMask);
HWY_EXPORT(Apply);

constexpr int64_t kWords = 1024;  // drawn at a time: 4 KB
constexpr int64_t kPast = 128;    // written past them at most: four vectors of 64 bytes

template <class T>
void run(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex) {
  const uint64_t threshold = keep_threshold(p);  // up to 2^32, when nothing is dropped
  const T factor = static_cast<T>(1 / (1 - p));
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t mask[kWords + kPast];
    for (int64_t at = begin; at < end; at += kWords) {
      const int64_t count = std::min(kWords, end - at);
      HWY_DYNAMIC_DISPATCH(KeepMask)
      (static_cast<uint64_t>(at / 4), stream, seed, threshold, (count + 3) / 4, mask);
      if constexpr (std::is_same_v<T, float>)
        HWY_DYNAMIC_DISPATCH(Apply)(x + at, residual ? residual + at : nullptr, mask, factor, y + at, count);
      else
        for (int64_t i = 0; i < count; ++i)
          y[at + i] = (residual ? residual[at + i] : T{0}) + (mask[i] ? x[at + i] * factor : T{0});
    }
  });
}

}  // namespace

template <class T>
void dropout_forward(const T* x, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex) {
  run<T>(x, nullptr, y, n, p, seed, stream, ex);
}

template <class T>
void dropout_add_forward(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream,
                         Executor& ex) {
  run<T>(x, residual, y, n, p, seed, stream, ex);
}

template void dropout_forward(const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_forward(const double*, double*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_add_forward(const float*, const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_add_forward(const double*, const double*, double*, int64_t, double, uint64_t, uint64_t,
                                  Executor&);

}  // namespace heed::inline v0
#endif
