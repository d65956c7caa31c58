// The fused kernels: tiles of scores never leave the caches. Compiled once for every SIMD target, chosen at run time.
#pragma once

#include <vector>

#include "attention/problem.h"

namespace heed::inline v0 {

inline constexpr int64_t kQueryTile = 64;  // queries of a tile of scores: its columns
inline constexpr int64_t kKeyTile = 64;    // keys of a tile of scores: its rows, 16 KB with the queries in float

void fused_forward(const Forward<float>& p, Executor& executor);
void fused_forward(const Forward<double>& p, Executor& executor);
void fused_backward(const Backward<float>& p, Executor& executor);
void fused_backward(const Backward<double>& p, Executor& executor);

/// The SIMD target that runs here: "AVX3", "NEON", ...
const char* fused_target();
/// Those compiled in that this machine can run, as Highway's bits; for tests.
std::vector<int64_t> fused_targets();

}  // namespace heed::inline v0
