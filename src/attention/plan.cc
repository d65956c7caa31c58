#include "attention/plan.h"

#include "attention/fused.h"

namespace heed::inline v0 {
namespace {

std::string describe(Implementation implementation) {
  if (implementation == Implementation::reference) return "reference (sums in double)";
  return std::string("fused (") + fused_target() + ", tiles of " + std::to_string(kQueryTile) + " queries by " +
         std::to_string(kKeyTile) + " keys)";
}

}  // namespace

// A new implementation takes its place in this list, before those that it beats.
std::vector<Candidate> candidates(const AttentionOptions& options) {
  const bool reference = options.implementation == Implementation::reference;
  return {{Implementation::fused, reference ? "options.implementation asks for reference" : ""},
          {Implementation::reference, reference ? "" : "fused comes first"}};
}

Implementation choose(const AttentionOptions& options) {
  for (const Candidate& c : candidates(options))
    if (c.refusal.empty()) return c.implementation;
  return Implementation::reference;
}

std::string explain(const Sizes& s, DType dtype, const AttentionOptions& options) {
  std::string text = "attention: q " + to_string(Dims{s.B, s.Hq, s.Lq, s.D}) + ", k " +
                     to_string(Dims{s.B, s.Hkv, s.Lk, s.D}) + ", v " + to_string(Dims{s.B, s.Hkv, s.Lk, s.Dv}) + " " +
                     name_of(dtype) + ": " + describe(choose(options));
  for (const Candidate& c : candidates(options))
    if (!c.refusal.empty())
      text += std::string("; not ") + (c.implementation == Implementation::fused ? "fused" : "reference") + ": " +
              c.refusal;
  return text;
}

}  // namespace heed::inline v0
