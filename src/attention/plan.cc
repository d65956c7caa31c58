#include "attention/plan.h"

namespace heed::inline v0 {
namespace {

const char* name(Implementation implementation) {
  return implementation == Implementation::reference ? "reference" : "fused";
}

}  // namespace

Implementation choose(const Sizes&, const AttentionOptions&) { return Implementation::reference; }

std::vector<Candidate> candidates(const Sizes& sizes, const AttentionOptions& options) {
  (void)sizes, (void)options;
  return {{Implementation::reference, ""}};
}

std::string explain(const Sizes& sizes, DType dtype, const AttentionOptions& options) {
  std::string text = "attention: " + to_string(Dims{sizes.B, sizes.Hq, sizes.Lq, sizes.D}) + " x " +
                     to_string(Dims{sizes.B, sizes.Hkv, sizes.Lk, sizes.D}) + " " + name_of(dtype) + " by " +
                     name(choose(sizes, options));
  return text;
}

}  // namespace heed::inline v0
