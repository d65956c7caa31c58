#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void forward_f32(const Forward<float>& p, Executor& executor) { run_forward(p, executor); }
void large_lse_f32(const Problem<float>& p, float* lse, float* lse_low, Executor& executor) {
  run_large_lse(p, lse, lse_low, executor);
}
const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
inline namespace v0 {

HEED_EXPORT(forward_f32);
HEED_EXPORT(large_lse_f32);
HEED_EXPORT(target_name);

void fused_forward(const Forward<float>& p, Executor& executor) { HEED_DISPATCH(forward_f32)(p, executor); }
void fused_large_lse(const Problem<float>& p, float* lse, float* lse_low, Executor& executor) {
  HEED_DISPATCH(large_lse_f32)(p, lse, lse_low, executor);
}
const char* fused_target() { return HEED_DISPATCH(target_name)(); }
std::vector<int64_t> fused_targets() { return supported_targets(HWY_TARGETS); }

}  // namespace v0
}  // namespace heed
#endif
