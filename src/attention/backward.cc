#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/backward.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void backward_f32(const Backward<float>& p, Executor& executor) { run_backward(p, executor); }

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
inline namespace v0 {

HEED_EXPORT(backward_f32);

void fused_backward(const Backward<float>& p, Executor& executor) { HEED_DISPATCH(backward_f32)(p, executor); }

}  // namespace v0
}  // namespace heed
#endif
