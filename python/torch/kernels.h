// heed in the place of two kernels of torch's, for patch().
#pragma once

#include <cstdint>

#include "heed/executor.h"
#include "shim.h"

namespace heed::python::torch {

/// Lets calls on torch's tensors run on torch's threads. Throws UsageError.
void use_threads(const char* path_of_libtorch_cpu);
/// These; null before use_threads().
Executor* threads();

/// Puts heed's kernels into torch's dispatcher, for tensors on the CPU. Throws UsageError. Not while installed.
void install(const char* path_of_libtorch_cpu);
/// Takes them out again: torch's own are as they were.
void uninstall();

/// How many calls ran in heed's kernels since the process began.
struct Calls {
  int64_t forward, backward;
};
Calls calls();

}  // namespace heed::python::torch
