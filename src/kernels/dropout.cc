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

// The high halves of 32 x 32 bit products, lane by lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulHigh(D d, V a, V b) {
  const hn::Repartition<uint64_t, D> d64;
  const auto even = hn::MulEven(a, b);  // products of lanes 0, 2, ...
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))),
                               hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, b))));
  const auto high_mask = hn::Set(d64, 0xFFFFFFFF00000000ull);
  return hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, high_mask)));
}

// words[4 * i + w] = word w of counter first + i, for i in [0, counters).
void PhiloxWords(uint64_t first, uint64_t stream, uint64_t seed, int64_t counters, uint32_t* HWY_RESTRICT words) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < counters; ++i) {
    const uint64_t c = first + static_cast<uint64_t>(i);
    const PhiloxCounter out = philox4x32({static_cast<uint32_t>(c), static_cast<uint32_t>(c >> 32),
                                          static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                                         philox_key(seed));
    std::memcpy(words + 4 * i, out.data(), 16);
  }
#else
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m0 = hn::Set(d, kPhiloxM0), m1 = hn::Set(d, kPhiloxM1);
  HWY_ALIGN uint32_t low[hn::MaxLanes(d)], high[hn::MaxLanes(d)];
  HWY_ALIGN uint32_t out[4 * hn::MaxLanes(d)];
  for (int64_t i = 0; i < counters; i += lanes) {
    for (int64_t j = 0; j < lanes; ++j) {
      const uint64_t c = first + static_cast<uint64_t>(i + j);
      low[j] = static_cast<uint32_t>(c);
      high[j] = static_cast<uint32_t>(c >> 32);
    }
    auto c0 = hn::Load(d, low), c1 = hn::Load(d, high);
    auto c2 = hn::Set(d, static_cast<uint32_t>(stream)), c3 = hn::Set(d, static_cast<uint32_t>(stream >> 32));
    PhiloxKey key = philox_key(seed);
    for (int round = 0; round < 10; ++round) {
      const auto h0 = MulHigh(d, m0, c0), l0 = hn::Mul(m0, c0), h1 = MulHigh(d, m1, c2), l1 = hn::Mul(m1, c2);
      c0 = hn::Xor(hn::Xor(h1, c1), hn::Set(d, key[0]));
      c2 = hn::Xor(hn::Xor(h0, c3), hn::Set(d, key[1]));
      c1 = l1;
      c3 = l0;
      key = {key[0] + kPhiloxW0, key[1] + kPhiloxW1};
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, out);
    std::memcpy(words + 4 * i, out, static_cast<size_t>(4 * std::min(lanes, counters - i)) * sizeof(uint32_t));
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

HWY_EXPORT(PhiloxWords);

constexpr int64_t kWords = 1024;  // drawn at a time: 4 KB

template <bool kAdd, class T>
void run(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex) {
  const uint64_t threshold = keep_threshold(p);  // up to 2^32, when nothing is dropped
  const T factor = static_cast<T>(1 / (1 - p));
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kWords];
    for (int64_t at = begin; at < end; at += kWords) {
      const int64_t count = std::min(kWords, end - at);
      HWY_DYNAMIC_DISPATCH(PhiloxWords)(static_cast<uint64_t>(at / 4), stream, seed, (count + 3) / 4, words);
      for (int64_t i = 0; i < count; ++i) {
        const T kept = words[i] < threshold ? x[at + i] * factor : T{0};
        y[at + i] = kAdd ? residual[at + i] + kept : kept;
      }
    }
  });
}

}  // namespace

template <class T>
void dropout_forward(const T* x, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex) {
  run<false, T>(x, nullptr, y, n, p, seed, stream, ex);
}

template <class T>
void dropout_add_forward(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream,
                         Executor& ex) {
  run<true, T>(x, residual, y, n, p, seed, stream, ex);
}

template void dropout_forward(const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_forward(const double*, double*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_add_forward(const float*, const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&);
template void dropout_add_forward(const double*, const double*, double*, int64_t, double, uint64_t, uint64_t,
                                  Executor&);

}  // namespace heed::inline v0
#endif
