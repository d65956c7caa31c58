#include "kernels/dropout.h"

#include "core/philox.h"
#include "kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/philox-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Stores for each word, in the order of the elements, whether it is below the threshold.
HWY_INLINE void StoreBelow(const PhiloxBlocks& blocks, Vec<int64_t> threshold, uint32_t* HWY_RESTRICT mask) {
  const Lanes<uint64_t> d;
  const Lanes<int64_t> di;
  const Lanes<uint32_t> d32;
  const auto below = [&](Vec<uint64_t> word)
                         HWY_ATTR { return hn::BitCast(d32, hn::VecFromMask(di, philox_below(word, threshold))); };
  const auto words01 = hn::BitCast(d, hn::OddEven(below(blocks.c1), below(blocks.c0)));
  const auto words23 = hn::BitCast(d, hn::OddEven(below(blocks.c3), below(blocks.c2)));
  hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<uint64_t*>(mask));
}

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
  const Lanes<uint64_t> d;
  const auto limit = hn::Set(Lanes<int64_t>(), static_cast<int64_t>(threshold));
  const PhiloxKey key = philox_key(seed);
  const auto high = hn::Set(d, stream >> 32), low = hn::Set(d, stream);
  const auto at = [&](int64_t i) HWY_ATTR {
    const auto counter = count_from(d, first + static_cast<uint64_t>(i));
    return PhiloxBlocks{counter, hn::ShiftRight<32>(counter), low, high};
  };
  constexpr int64_t N = lanes<uint64_t>();
  for (int64_t i = 0; i < counters; i += 4 * N) {
    PhiloxBlocks a = at(i), b = at(i + N), c = at(i + 2 * N), e = at(i + 3 * N);
    philox_draw(key, a, b, c, e);
    StoreBelow(a, limit, mask + 4 * i);
    StoreBelow(b, limit, mask + 4 * (i + N));
    StoreBelow(c, limit, mask + 4 * (i + 2 * N));
    StoreBelow(e, limit, mask + 4 * (i + 3 * N));
  }
#endif
}

// y = x * factor where the mask is set, else 0, plus the residual where there is one.
void Apply(const float* x, const float* residual, const uint32_t* mask, float factor, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto vfactor = hn::Set(d, factor);
  const float* const bits = reinterpret_cast<const float*>(mask);  // only ever loaded into vectors
  for_vectors(d, n, [&](auto load, auto store, auto) HWY_ATTR {
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

HEED_EXPORT(KeepMask);
HEED_EXPORT(Apply);

constexpr int64_t kWords = 1024;  // drawn at a time: 4 KB
constexpr int64_t kPast = 128;    // written past them at most: four vectors of 64 bytes

template <class T>
void run(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex,
         int64_t first) {
  const uint64_t threshold = keep_threshold(p);  // up to 2^32, when nothing is dropped
  const T factor = static_cast<T>(1 / (1 - p));
  for_chunks(n, kChunk, ex, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kWords + 4 + kPast];
    for (int64_t at = begin; at < end; at += kWords) {
      const int64_t count = std::min(kWords, end - at), past = (first + at) % 4;
      HEED_DISPATCH(KeepMask)
      (static_cast<uint64_t>((first + at) / 4), stream, seed, threshold, (past + count + 3) / 4, words);
      const uint32_t* const mask = words + past;
      if constexpr (std::is_same_v<T, float>)
        HEED_DISPATCH(Apply)(x + at, residual ? residual + at : nullptr, mask, factor, y + at, count);
      else
        for (int64_t i = 0; i < count; ++i)
          y[at + i] = (residual ? residual[at + i] : T{0}) + (mask[i] ? x[at + i] * factor : T{0});
    }
  });
}

}  // namespace

template <class T>
void dropout_forward(const T* x, T* y, int64_t n, double p, uint64_t seed, uint64_t stream, Executor& ex,
                     int64_t first) {
  run<T>(x, nullptr, y, n, p, seed, stream, ex, first);
}

template <class T>
void dropout_add_forward(const T* x, const T* residual, T* y, int64_t n, double p, uint64_t seed, uint64_t stream,
                         Executor& ex, int64_t first) {
  run<T>(x, residual, y, n, p, seed, stream, ex, first);
}

template void dropout_forward(const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&, int64_t);
template void dropout_forward(const double*, double*, int64_t, double, uint64_t, uint64_t, Executor&, int64_t);
template void dropout_add_forward(const float*, const float*, float*, int64_t, double, uint64_t, uint64_t, Executor&,
                                  int64_t);
template void dropout_add_forward(const double*, const double*, double*, int64_t, double, uint64_t, uint64_t, Executor&,
                                  int64_t);

}  // namespace heed::inline v0
#endif
