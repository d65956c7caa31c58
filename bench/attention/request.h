// What the attention benchmarks ask for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace heed::bench {

/// One operation of attention. Shapes: q (B, Hq, Lq, D), k and v (B, Hkv, Lk, D).
struct Request {
  int64_t B = 1, Hq = 1, Hkv = 1, Lq = 1, Lk = 1, D = 1;
  bool causal = false;    // key j visible where j <= i + Lk - Lq
  int64_t window = -1;    // with causal: the last `window` keys only; -1 is unlimited
  bool backward = false;  // forward, then backward
  bool workspace = true;  // scratch memory is the caller's
  double dropout = 0;
  std::string dtype = "f32";       // f32, f16, bf16
  std::vector<int64_t> lengths{};  // tokens of each sentence of a ragged batch; Lq and Lk are the longest

  /// (query, key) pairs that are visible, over all heads.
  double pairs() const;
  /// Floating point operations: two products forward, five more backward (the scores again, and four gradients).
  double flop() const { return 2 * pairs() * static_cast<double>(D) * (backward ? 7 : 2); }
  /// Bytes of k and v.
  double cache_bytes() const;
};

/// Absent fields keep their defaults.
Request parse(const nlohmann::json& request);

}  // namespace heed::bench
