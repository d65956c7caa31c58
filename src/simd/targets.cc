#include "simd/targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace heed::inline v0 {

#if HWY_ARCH_X86
namespace {

/// A bit of ecx of cpuid's leaf: what clang 14 has no names for in __builtin_cpu_supports.
bool has(unsigned leaf, unsigned bit) {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(leaf, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit) != 0;
}

}  // namespace
#endif

int64_t detect_targets() {
  int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;  // what runs this file runs these
#if HWY_ARCH_X86
  // What the compiler may use for each; the builtin also asks whether the system keeps the registers.
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has(1, bit_F16C) &&
                    has(0x80000001, bit_LZCNT);
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512cd");
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  kernel_targets.store(targets, std::memory_order_relaxed);
  return targets;
}

std::vector<int64_t> supported_targets(int64_t compiled) {
  std::vector<int64_t> single;
  for (int64_t left = supported_targets() & compiled; left != 0; left &= left - 1) single.push_back(left & -left);
  return single;
}

void set_targets_for_test(int64_t targets) { kernel_targets.store(targets, std::memory_order_relaxed); }

}  // namespace heed::inline v0
