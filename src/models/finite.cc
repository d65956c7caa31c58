#include "heed/models.h"

#include "heed/finite.h"
#include "kernels/elementwise.h"

namespace heed::inline v0 {

void check_finite(const char* operation, const char* what, const Tensor& values, const Module& model) {
  const Tensor x = values.contiguous();
  if (all_finite(x.data<float>(), x.numel(), default_executor())) return;
  const std::string message = std::string(operation) + ": " + what + " is not finite; ";
  if (const auto found = first_non_finite(model))
    throw Error(message + *found + "; the model is damaged: use another copy, or train it again");
  throw Error(message +
              "all weights are, so the computation overflows: a model this far from what training makes is damaged, or "
              "lost its range when it was converted (float16 ends at 65504); take its float32 or bfloat16 version");
}

}  // namespace heed::inline v0
