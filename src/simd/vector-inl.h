// Vectors as all kernels speak of them: lanes, loops over registers, elements kept in half of their bits, and rows
// whose last vector is partial. For every target; included once per target.
#if defined(HEED_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_VECTOR_INL_H_
#undef HEED_SIMD_VECTOR_INL_H_
#else
#define HEED_SIMD_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "heed/tensor.h"
#include "simd/targets.h"

#ifndef HEED_SIMD_VECTOR_ONCE
#define HEED_SIMD_VECTOR_ONCE
namespace heed::inline v0 {

/// Where element i stands of those that `from` begins with.
template <class S>
constexpr const S* element(const S* from, int64_t i) {
  return from + i;
}

}  // namespace heed::inline v0
#endif

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Lanes<T>>;

/// Lanes of a vector of T; of a target whose vectors have no fixed length, the most.
template <class T>
constexpr int64_t lanes() {
  return static_cast<int64_t>(hn::MaxLanes(Lanes<T>()));
}
template <class T>
constexpr int64_t round_to_lanes(int64_t n) {
  return (n + lanes<T>() - 1) / lanes<T>() * lanes<T>();
}

/// Calls f(integral_constant 0), ..., f(integral_constant N - 1): loops over registers must vanish.
template <class F, int... I>
HWY_INLINE void unroll(std::integer_sequence<int, I...>, F&& f) {
  (f(std::integral_constant<int, I>()), ...);
}
template <int N, class F>
HWY_INLINE void unroll(F&& f) {
  unroll(std::make_integer_sequence<int, N>(), f);
}

/// from, from + 1, ... Highway's Iota goes through memory lane by lane where its beginning is not a constant.
template <class D>
HWY_INLINE hn::Vec<D> count_from(D d, hn::TFromD<D> from) {
  return hn::Add(hn::Iota(d, hn::TFromD<D>{0}), hn::Set(d, from));
}

// ---- Elements kept as T, or as float16 or bfloat16 ----

/// Whether the target's own conversions serve for S. Where it has none for float16, Highway's do not round to nearest,
/// and take Inf and NaN for numbers.
template <class S>
constexpr bool kConverts = !std::is_same_v<S, hwy::float16_t> || (HWY_TARGET != HWY_SCALAR && HWY_TARGET <= HWY_AVX2);

/// A vector of elements that are kept as S.
template <class T, class S>
HWY_INLINE Vec<T> load_as(const S* from) {
  const Lanes<T> d;
  if constexpr (std::is_same_v<T, S>) {
    return hn::LoadU(d, from);
  } else if constexpr (kConverts<S>) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<S, Lanes<T>>(), from));
  } else {
    const hn::RebindToUnsigned<Lanes<T>> du;
    const hn::RebindToSigned<Lanes<T>> di;
    const auto bits =
        hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, Lanes<T>>(), reinterpret_cast<const uint16_t*>(from)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFF)));  // as a float of another bias
    const auto number = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, T{0x1p112f})));
    const auto finite = hn::RebindMask(du, hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x7C00 << 13)));
    const auto value = hn::IfThenElse(finite, number, hn::Or(magnitude, hn::Set(du, 0x7F800000)));
    return hn::BitCast(d, hn::Or(value, hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)))));
  }
}

/// Stores a vector as elements of S, rounded to nearest, ties to even, as to_float16 and to_bfloat16 do.
template <class T, class S>
HWY_INLINE void store_as(Vec<T> v, S* to) {
  static_assert(kConverts<S>);
  const Lanes<T> d;
  if constexpr (std::is_same_v<T, S>) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Rebind<uint16_t, Lanes<T>> d16;
    auto* const bits = reinterpret_cast<uint16_t*>(to);
    if constexpr (std::is_same_v<S, hwy::float16_t>) {
      hn::StoreU(hn::BitCast(d16, hn::DemoteTo(hn::Rebind<S, Lanes<T>>(), v)), d16, bits);
    } else {
      const hn::RebindToUnsigned<Lanes<T>> du;
      const hn::RebindToSigned<Lanes<T>> di;
      const auto u = hn::BitCast(du, v), upper = hn::ShiftRight<16>(u);
      const auto odd = hn::And(upper, hn::Set(du, 1));
      const auto nearest = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(du, 0x7FFF)), odd));
      const auto quiet = hn::Or(upper, hn::Set(du, 0x40));  // NaN stays one
      const auto number = hn::RebindMask(du, hn::Eq(v, v));
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(number, nearest, quiet))), d16, bits);
    }
  }
}

// ---- Rows whose last vector is partial ----

// Masked loads read past the end on targets without them, so a tail goes through a buffer.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
  return hn::Load(d, buffer);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* p, int64_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
}

/// step(load, store, live) for every vector of [0, n): load(p) and store(v, p) take pointers to the row's beginning and
/// handle the tail, whose missing lanes read as 0; live(v) makes the missing lanes 0 again.
template <class D, class F>
HWY_INLINE void for_vectors(D d, int64_t n, F&& step) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const auto count = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + count <= n; i += count)
    step([&](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); }, [&](V v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); },
         [](V v) HWY_ATTR { return v; });
  if (i < n)
    step([&](const T* p) HWY_ATTR { return load_first(d, p + i, n - i); },
         [&](V v, T* p) HWY_ATTR { store_first(v, d, p + i, n - i); },
         [&](V v) HWY_ATTR { return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), v); });
}

/// to[0, count) = from[0, count), which are kept as S.
template <class T, class S>
void widen(const S* HWY_RESTRICT from, int64_t count, T* HWY_RESTRICT to) {
  const Lanes<T> d;
  int64_t i = 0;
  for (; i + lanes<T>() <= count; i += lanes<T>()) hn::StoreU(load_as<T>(from + i), d, to + i);
  if (i == count) return;
  HWY_ALIGN S rest[lanes<T>()] = {};
  std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(S));
  store_first(load_as<T>(rest), d, to + i, count - i);
}

// ---- Sums of lanes ----

template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

#if HWY_TARGET != HWY_SCALAR
/// The sum of a vector's blocks of 128 bits.
template <class V>
HWY_INLINE auto sum_of_blocks(V v) {
  if constexpr (sizeof(V) <= 16) {
    return v;
  } else {
    const hn::Half<hn::DFromV<V>> half;
    return sum_of_blocks(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

/// to[i] = the sum of the lanes of v[i], i < 4, all by the same tree: interleaving two vectors and adding the halves
/// sums both.
template <class T>
HWY_INLINE void store_four_sums(const Vec<T> (&v)[4], T* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(v[i]);
#else
  const Lanes<T> d;
  const hn::Full128<T> block;
  const auto pair = [&](int i) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(d, v[i], v[i + 1]), hn::InterleaveUpper(d, v[i], v[i + 1]));
  };
  if constexpr (sizeof(T) == 8) {
    hn::StoreU(sum_of_blocks(pair(0)), block, to);
    hn::StoreU(sum_of_blocks(pair(2)), block, to + 2);
  } else {
    const hn::Repartition<uint64_t, Lanes<T>> wide;
    const auto a = hn::BitCast(wide, pair(0)), b = hn::BitCast(wide, pair(2));
    const Vec<T> lower = hn::BitCast(d, hn::InterleaveLower(wide, a, b));
    const Vec<T> upper = hn::BitCast(d, hn::InterleaveUpper(wide, a, b));
    hn::StoreU(sum_of_blocks(hn::Add(lower, upper)), block, to);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#endif  // HEED_SIMD_VECTOR_INL_H_
