// On which of Highway's targets kernels run: the best that were compiled and that the processor has. Highway's own
// choice lives in a library that measures the clock for benchmarks when it is loaded, 3 to 7 ms of every start
// (docs/decisions/0008-one-foundation.md); so its headers are all that heed takes.
#pragma once

#include <hwy/targets.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace heed::inline v0 {

inline std::atomic<int64_t> kernel_targets{0};  // bits of HWY_TARGETS; 0: not asked for yet

/// Bits of HWY_TARGETS that this processor and its system run, or those that a test chose.
int64_t detect_targets();
inline int64_t supported_targets() {
  const int64_t targets = kernel_targets.load(std::memory_order_relaxed);
  return targets != 0 ? targets : detect_targets();
}

/// Those of `compiled`, which is HWY_TARGETS of the file that calls, one by one, the best first.
std::vector<int64_t> supported_targets(int64_t compiled);

/// Kernels run on one of these from now on; 0: on what the processor has.
void set_targets_for_test(int64_t targets);

/// The place of the best of `compiled` in the table of HEED_EXPORT.
inline size_t target_index(int64_t compiled) {
  const int64_t places = HWY_CHOSEN_TARGET_SHIFT(supported_targets() & compiled) | HWY_CHOSEN_TARGET_MASK_SCALAR;
  return hwy::Num0BitsBelowLS1Bit_Nonzero64(static_cast<uint64_t>(places));
}

}  // namespace heed::inline v0

// HEED_EXPORT(Function) stands in the namespace around HWY_NAMESPACE; HEED_DISPATCH(Function)(...) calls the best one.
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0  // one target: Highway needs no choice either
#define HEED_EXPORT(Function) HWY_EXPORT(Function)
#define HEED_DISPATCH(Function) HWY_DYNAMIC_DISPATCH(Function)
#else
#define HEED_EXPORT(Function)                                                    \
  constexpr decltype(&HWY_STATIC_DISPATCH(Function)) Function##_on_targets[] = { \
      nullptr, HWY_CHOOSE_TARGET_LIST(Function), HWY_CHOOSE_FALLBACK(Function)}; \
  static_assert(std::size(Function##_on_targets) == HWY_MAX_DYNAMIC_TARGETS + 2)
#define HEED_DISPATCH(Function) (*Function##_on_targets[target_index(HWY_TARGETS)])
#endif
