// ImageEncoder: models that read a picture as a row of patches, as the Vision Transformer does, and how a picture
// becomes their input.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heed/nn.h"

namespace heed::inline v0 {

/// In pixels.
struct ImageSize {
  int64_t height = 0, width = 0;
};

struct ImageEncoderConfig {
  ImageSize image{224, 224},
      patch{16, 16};  // what is left at the right and below, where it is no multiple, is not read
  int64_t channels = 3;
  int64_t d_model = 768;
  double dropout = 0;  // of embeddings
  std::vector<TransformerLayerOptions> layers{};
  int64_t classes = 0;  // of the head, a linear layer on the class token's state; 0: no head

  int64_t patches() const { return (image.height / patch.height) * (image.width / patch.width); }  // P
};

/// Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words". A patch is one product; a class token stands in front of
/// the patches, which go row by row. All see all. Behind the last layer is a norm.
class ImageEncoder : public Module {
 public:
  /// Throws ShapeError.
  explicit ImageEncoder(const ImageEncoderConfig& config);
  const ImageEncoderConfig& config() const { return config_; }

  /// pixels (B, channels, height, width), floating, as prepare_image gives them -> the last states (B, 1 + P, E).
  /// `record` gets its `encoder` part. Throws ShapeError for pictures of another size.
  Variable hidden(const Tensor& pixels, AttentionRecord* record = nullptr) const;
  /// What the head makes of states: (B, classes). Throws UsageError without a head.
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

/// How a pixel of a smaller or larger picture is made of those around its place, by Pillow's names (Keys 1981 for
/// bicubic, with -1/2). Where the picture becomes smaller the filter is as much wider, so that all pixels count, but
/// for `nearest`, which takes the pixel that is there.
enum class Resampling : uint8_t { nearest, box, bilinear, hamming, bicubic, lanczos };

/// What is done to a picture, in this order.
struct ImagePreparation {
  std::optional<ImageSize> size{};        // resized to
  std::optional<int64_t> shorter_side{};  // instead: resized so that it has this length, in the ratio that is there
  Resampling resampling = Resampling::bilinear;
  std::optional<ImageSize> crop{};                   // the middle is cut out
  double factor = 1.0 / 255;                         // of values
  std::array<double, 3> mean{}, deviation{1, 1, 1};  // of channels: (value - mean) / deviation
};

/// The longest side that prepare_image takes and makes, in pixels.
inline constexpr int64_t kLongestSide = 32767;
/// The most pixels that it makes, in 3 bytes each: of the result and of what lies between.
inline constexpr int64_t kMostPreparedPixels = int64_t{1} << 25;

/// picture (H, W, 3) u8, red, green and blue -> (1, 3, height, width) f32. Resizing is in whole numbers, columns first,
/// and gives the bytes of Pillow's resize up to version 12; version 13 takes rows first where the height shrinks more.
/// Throws ShapeError for another shape or dtype, for more pixels, and where the crop does not fit.
Tensor prepare_image(const Tensor& picture, const ImagePreparation& how);
/// The picture that prepare_image made pixels (1, 3, height, width) of, resized and cut as it was: (height, width, 3)
/// u8. Throws ShapeError for another shape.
Tensor restore_image(const Tensor& pixels, const ImagePreparation& how);
/// picture (H, W, 3) u8 resized, as part of the above.
Tensor resize_image(const Tensor& picture, ImageSize size, Resampling resampling);

}  // namespace heed::inline v0
