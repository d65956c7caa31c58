#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/inspect.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/inspect-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void inspect_f32(const Inspection<float>& p, Executor& executor, std::vector<TopRow<float>>* top) {
  run_inspect(p, executor, top);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
inline namespace v0 {

HEED_EXPORT(inspect_f32);

void inspect(const Inspection<float>& p, Executor& executor, std::vector<TopRow<float>>* top) {
  HEED_DISPATCH(inspect_f32)(p, executor, top);
}

}  // namespace v0
}  // namespace heed
#endif
