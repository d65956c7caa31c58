// The fused kernels: tiles of scores never leave the caches. Compiled once for every SIMD target, chosen at run time.
#pragma once

#include <vector>

#include "attention/problem.h"

namespace heed::inline v0 {

inline constexpr int64_t kQueryTile = kTile;  // queries of a tile of scores: its columns
inline constexpr int64_t kKeyTile = kTile;    // keys of a tile of scores: its rows, 16 KB with the queries in float

/// Tiles with so few queries leave most lanes of a product along the queries idle: forward may compute their scores
/// otherwise than backward, with sums in another order.
inline constexpr int64_t kFewQueries = 16;

void fused_forward(const Forward<float>& p, Executor& executor);
void fused_forward(const Forward<double>& p, Executor& executor);
/// Computes lse and lse_low of the rows whose lse is_large anew, from scores that have backward's bits. The rest stays.
void fused_large_lse(const Problem<float>& p, float* lse, float* lse_low, Executor& executor);
void fused_large_lse(const Problem<double>& p, double* lse, double* lse_low, Executor& executor);
void fused_backward(const Backward<float>& p, Executor& executor);
void fused_backward(const Backward<double>& p, Executor& executor);

/// Few queries over many keys: split along the keys, the partial results merged in a fixed order.
void decode_forward(const Forward<float>& p, Executor& executor);
void decode_forward(const Forward<double>& p, Executor& executor);

/// The kept keys of a row, largest weight first.
template <class T>
struct TopRow {
  std::vector<int64_t> keys;
  std::vector<T> weights;
};
/// Writes p.dense, or where p.top_p < 1 the rows of `top` (B, N, R).
void inspect(const Inspection<float>& p, Executor& executor, std::vector<TopRow<float>>* top);
void inspect(const Inspection<double>& p, Executor& executor, std::vector<TopRow<double>>* top);

/// The SIMD target that runs here: "AVX3", "NEON", ...
const char* fused_target();
/// Those compiled in that this machine can run, as Highway's bits; for tests.
std::vector<int64_t> fused_targets();

}  // namespace heed::inline v0
