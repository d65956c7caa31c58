// Forward, decode and weights on request in double, apart so that the two precisions are compiled side by side.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/float64.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles what follows once for each target.
#include "attention/decode-inl.h"
#include "attention/forward-inl.h"
#include "attention/inspect-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
inline namespace v0 {
namespace HWY_NAMESPACE {

void forward_f64(const Forward<double>& p, Executor& executor) { run_forward(p, executor); }
void large_lse_f64(const Problem<double>& p, double* lse, double* lse_low, Executor& executor) {
  run_large_lse(p, lse, lse_low, executor);
}
void decode_f64(const Forward<double>& p, Executor& executor) { run_decode(p, executor); }
void inspect_f64(const Inspection<double>& p, Executor& executor, std::vector<TopRow<double>>* top) {
  run_inspect(p, executor, top);
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
inline namespace v0 {

HEED_EXPORT(forward_f64);
HEED_EXPORT(large_lse_f64);
HEED_EXPORT(decode_f64);
HEED_EXPORT(inspect_f64);

void fused_forward(const Forward<double>& p, Executor& executor) { HEED_DISPATCH(forward_f64)(p, executor); }
void fused_large_lse(const Problem<double>& p, double* lse, double* lse_low, Executor& executor) {
  HEED_DISPATCH(large_lse_f64)(p, lse, lse_low, executor);
}
void decode_forward(const Forward<double>& p, Executor& executor) { HEED_DISPATCH(decode_f64)(p, executor); }
void inspect(const Inspection<double>& p, Executor& executor, std::vector<TopRow<double>>* top) {
  HEED_DISPATCH(inspect_f64)(p, executor, top);
}

}  // namespace v0
}  // namespace heed
#endif
