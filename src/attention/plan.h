// Which implementation runs a call, and why the others do not.
#pragma once

#include <array>
#include <string>

#include "attention/problem.h"
#include "heed/attention.h"

namespace heed::inline v0 {

inline constexpr int64_t kDecodeHeadSize = 256;  // the largest D and Dv that decode takes
// Where the automatic choice takes decode: few queries of a key head, which share each key that is read, and keys
// enough to split.
inline constexpr int64_t kDecodeMostRows = 16;  // Lq * Hq / Hkv
inline constexpr int64_t kDecodeFewestKeys = 512;

struct Candidate {
  Implementation implementation;
  const char* refusal;  // null for the one that runs
};

/// In order of preference; exactly one is not refused.
std::array<Candidate, 3> candidates(const Sizes& sizes, const AttentionOptions& options);
Implementation choose(const Sizes& sizes, const AttentionOptions& options);
/// What runs backward: there is no decode.
Implementation choose_backward(const Sizes& sizes, const AttentionOptions& options);

/// Why decode cannot run a call; null where it can.
const char* decode_refusal(const Sizes& sizes, const AttentionOptions& options);

/// How the operands are kept.
struct Storages {
  DType queries, keys;
};
std::string explain(const Sizes& sizes, const Storages& storages, const AttentionOptions& options);
std::string explain_backward(const Sizes& sizes, const Storages& storages, const AttentionOptions& options);

}  // namespace heed::inline v0
