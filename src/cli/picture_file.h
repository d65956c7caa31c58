// Files that models of pictures read.
#pragma once

#include <string>

#include "heed/image_encoder.h"
#include "heed/load.h"

namespace heed::cli {

/// What a model of pictures takes, (1, channels, height, width), from a file. A PNG, and an npy of (H, W, 3) bytes, are
/// pictures, which preprocessor_config.json of the model's directory says how to prepare; an npy of (channels, height,
/// width) floating, with a 1 in front or not, is prepared already. Throws ShapeError for an array of another shape or
/// dtype, and as read_png, load_npy and load_image_preparation do.
Tensor read_pixels(const std::string& path, const std::string& directory, const ImageEncoderConfig& model);

}  // namespace heed::cli
