// Loads and stores of the last, partial vector of a row, for every target. Included once per target.
#if defined(HEED_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Masked loads read past the end on targets without them, so a tail goes through a buffer.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
  return hn::Load(d, buffer);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
}

// step(load, store, i) for every vector of [0, n): load(p) and store(v, p) take pointers to the row's beginning and
// handle the tail, whose missing lanes read as 0.
template <class D, class F>
HWY_INLINE void ForVectors(D d, int64_t n, F&& step) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    step([&](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); }, [&](V v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); },
         i);
  if (i < n)
    step([&](const T* p) HWY_ATTR { return LoadFirst(d, p + i, n - i); },
         [&](V v, T* p) HWY_ATTR { StoreFirst(v, d, p + i, n - i); }, i);
}

template <class D>
HWY_INLINE hn::TFromD<D> Total(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif
