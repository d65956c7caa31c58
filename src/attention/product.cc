#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

template void product(int64_t, int64_t, int64_t, Left<float, true>, Matrix<const float>, Matrix<float>, bool);
template void product(int64_t, int64_t, int64_t, Left<float, false>, Matrix<const float>, Matrix<float>, bool);
template void product(int64_t, int64_t, int64_t, Left<double, true>, Matrix<const double>, Matrix<double>, bool);
template void product(int64_t, int64_t, int64_t, Left<double, false>, Matrix<const double>, Matrix<double>, bool);

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();
