// ImageEncoder: models such as the Vision Transformer, which read an image as a sequence of patches, and the
// preparation of their input.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heed/nn.h"

namespace heed::inline v0 {

/// A size in pixels.
struct ImageSize {
  int64_t height = 0, width = 0;
};

struct ImageEncoderConfig {
  ImageSize image{224, 224}, patch{16, 16};  // an incomplete patch at the right or bottom is ignored
  int64_t channels = 3;
  int64_t d_model = 768;
  double dropout = 0;  // of the embeddings
  std::vector<TransformerLayerOptions> layers{};
  int64_t classes = 0;  // outputs of the head, a linear layer on the class token's state; 0: no head

  int64_t patches() const { return (image.height / patch.height) * (image.width / patch.width); }  // P
};

/// The Vision Transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"). The sequence is a class token,
/// then the patches row by row; a linear layer embeds each patch. Every token attends to every token. A norm follows
/// the last layer.
class ImageEncoder : public Module {
 public:
  /// Throws ShapeError.
  explicit ImageEncoder(const ImageEncoderConfig& config);
  const ImageEncoderConfig& config() const { return config_; }

  /// pixels (B, channels, height, width), floating, as from prepare_image -> last states (B, 1 + P, E). Fills the
  /// `encoder` part of `record`. Throws ShapeError for images of another size.
  Variable hidden(const Tensor& pixels, AttentionRecord* record = nullptr) const;
  /// Applies the head to states: (B, classes). Throws UsageError if the model has no head.
  Variable apply_head(const Variable& states) const;
  Variable logits(const Tensor& pixels) const { return apply_head(hidden(pixels)); }

 private:
  ImageEncoderConfig config_;
  Variable class_token_, positions_;  // (E), (1 + P, E)
  Linear patches_;
  std::unique_ptr<TransformerEncoder> layers_;
  std::unique_ptr<Linear> output_;
};

// ---------------------------------------------------------------------------------------------- preparation

/// Filters for resizing, with Pillow's names (bicubic: Keys 1981, with -1/2). When an image becomes smaller, the filter
/// is widened by the same factor, so that all pixels contribute; `nearest` takes a single pixel.
enum class Resampling : uint8_t { nearest, box, bilinear, hamming, bicubic, lanczos };

/// Steps of the preparation of an image, in this order.
struct ImagePreparation {
  std::optional<ImageSize> size{};  // resize to this size
  /// Instead: resize so that the shorter side has this length, keeping the aspect ratio.
  std::optional<int64_t> shorter_side{};
  Resampling resampling = Resampling::bilinear;
  std::optional<ImageSize> crop{};                   // crop the centre to this size
  double factor = 1.0 / 255;                         // multiplies the values
  std::array<double, 3> mean{}, deviation{1, 1, 1};  // per channel: (value - mean) / deviation
};

/// The longest side of an input or output of prepare_image, in pixels.
inline constexpr int64_t kLongestSide = 32767;
/// The most pixels, 3 bytes each, of its result and of its intermediate images.
inline constexpr int64_t kMostPreparedPixels = int64_t{1} << 25;

/// picture (H, W, 3) u8, red, green and blue -> (1, 3, height, width) f32. Resizing uses integer arithmetic, columns
/// first, and gives the same bytes as Pillow's resize up to version 12; version 13 takes rows first if the height
/// shrinks more. Throws ShapeError for another shape or dtype, for too many pixels, and if the crop does not fit.
Tensor prepare_image(const Tensor& picture, const ImagePreparation& how);
/// The inverse of the last steps of prepare_image: the resized and cropped image (height, width, 3) u8 of pixels (1, 3,
/// height, width). Throws ShapeError for another shape.
Tensor restore_image(const Tensor& pixels, const ImagePreparation& how);
/// Resizes picture (H, W, 3) u8, as prepare_image does.
Tensor resize_image(const Tensor& picture, ImageSize size, Resampling resampling);

}  // namespace heed::inline v0
