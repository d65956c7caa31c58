#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/decode.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void decode_f32(const Forward<float>& p, Executor& executor) { run_decode(p, executor); }

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
inline namespace v0 {

HEED_EXPORT(decode_f32);

void decode_forward(const Forward<float>& p, Executor& executor) { HEED_DISPATCH(decode_f32)(p, executor); }

}  // namespace v0
}  // namespace heed
#endif
