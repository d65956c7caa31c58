// Which implementation runs a call, and why the others do not.
#pragma once

#include <string>
#include <vector>

#include "attention/problem.h"
#include "heed/attention.h"

namespace heed::inline v0 {

struct Candidate {
  Implementation implementation;
  std::string refusal;  // empty for the one that runs
};

/// In order of preference; exactly one is not refused.
std::vector<Candidate> candidates(const AttentionOptions& options);
Implementation choose(const AttentionOptions& options);
std::string explain(const Sizes& sizes, DType dtype, const AttentionOptions& options);

}  // namespace heed::inline v0
