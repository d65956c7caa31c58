#include "core/quantised.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/quantised.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/quantised-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void Dequantise(const Quantised& from, int64_t count, float* to) { widen(from, count, to); }

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::inline v0 {
namespace {
HEED_EXPORT(Dequantise);
}

void dequantise(const Quantised& from, int64_t count, float* to) { HEED_DISPATCH(Dequantise)(from, count, to); }

}  // namespace heed::inline v0
#endif
