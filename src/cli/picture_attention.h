// Attention over the patches of a picture, for heed attend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/text_reader.h"
#include "heed/view.h"

namespace heed::cli {

/// A picture as a model took it, and its patches, row by row.
struct Patches {
  Tensor picture{};  // (height, width, 3) u8: all that patches show
  int64_t rows = 0, columns = 0;
};
/// `pixels` is what prepare_image() gives, `how` the way it was asked to.
Patches patches_of(const Tensor& pixels, const ImagePreparation& how, const ImageEncoderConfig& model);

/// The token of a patch, "3,4" for row 3 and column 4; none: the class token, 0. Throws UsageError.
int64_t token_of_patch(const std::string& patch, const Patches& patches);

/// What a token attends to in the picture, by weights (1 + P, 1 + P) of one head or of several. A note says what is on
/// the class token.
PatchMap over_picture(const AttentionMap& map, const Patches& patches, int64_t token);

/// "cat 0.912, dog 0.081": the first three.
std::string likeliest(const std::vector<ScoredLabel>& classes);

}  // namespace heed::cli
