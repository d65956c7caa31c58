#include "heed/error.h"
#include "heed/io.h"
#include "heed/pages.h"
#include "heed/pretrained.h"
#include "heed/view.h"

namespace heed::inline v0 {
namespace {

[[noreturn]] void refuse(const std::string& path, const NpyInfo& info, const ImageEncoderConfig& model) {
  const std::string prepared = std::to_string(model.channels) + ", " + std::to_string(model.image.height) + ", " +
                               std::to_string(model.image.width);
  throw ShapeError(path + " is " + shape_text(info.shape) + " of " + info.descr + "; give a picture, (H, W, 3) of " +
                   "bytes, or what the model takes, (" + prepared + ") of float32");
}

// Sizes are looked at before memory is taken.
Tensor read_array(const std::string& path, const ImageEncoderConfig& model) {
  const NpyInfo info = read_npy_info(path);
  const std::vector<int64_t>& shape = info.shape;
  const bool picture = info.dtype == DType::u8 && shape.size() == 3 && shape[2] == 3;
  if (picture) {
    const int64_t pixels = static_cast<int64_t>(kMostPixels);
    if (shape[0] < 1 || shape[1] < 1 || shape[0] > kLongestSide || shape[1] > kLongestSide ||
        shape[0] * shape[1] > pixels)
      throw ShapeError(path + ": a picture of " + std::to_string(shape[1]) + " x " + std::to_string(shape[0]) +
                       " pixels; sides must be in 1.." + std::to_string(kLongestSide) + ", and at most " +
                       std::to_string(pixels) + " pixels are read: make it smaller");
    return load_npy(path).tensor;
  }
  std::vector<int64_t> wanted = {model.channels, model.image.height, model.image.width};
  const bool one_in_front = shape.size() == 4 && shape[0] == 1;
  if (!is_floating(info.dtype) || std::vector<int64_t>(shape.begin() + one_in_front, shape.end()) != wanted)
    refuse(path, info, model);
  return load_npy(path).tensor.to(DType::f32).contiguous().reshape({1, wanted[0], wanted[1], wanted[2]});
}

}  // namespace

Tensor read_pixels(const std::string& path, const std::string& directory, const ImageEncoderConfig& model) {
  const Tensor picture = path.ends_with(".npy") ? read_array(path, model) : read_png(path);
  if (picture.dtype() != DType::u8) return picture;
  if (model.channels != 3)
    throw ShapeError(path + " is a picture of 3 channels, and the model takes " + std::to_string(model.channels) +
                     "; give an npy of what it takes");
  return prepare_image(picture, load_image_preparation(directory));
}

}  // namespace heed::inline v0
