#include "heed/image_encoder.h"

#include <numeric>

#include "heed/random.h"

namespace heed::inline v0 {
namespace {

constexpr double kDeviation = 0.02;  // standard deviation of initial positions and of the class token

std::string text_of(const ImageSize& size) { return std::to_string(size.height) + " x " + std::to_string(size.width); }

const ImageEncoderConfig& checked(const ImageEncoderConfig& c) {
  const auto need = [](const char* field, int64_t value) {
    if (value < 1)
      throw ShapeError(std::string("ImageEncoder: ") + field + " is " + std::to_string(value) +
                       "; it must be 1 or more");
  };
  for (const ImageSize& size : {c.image, c.patch})
    if (size.height < 1 || size.width < 1 || size.height > kLongestSide || size.width > kLongestSide)
      throw ShapeError("ImageEncoder: a size of " + text_of(size) + " pixels; sides must be in 1.." +
                       std::to_string(kLongestSide));
  if (c.patches() < 1)
    throw ShapeError("ImageEncoder: patches of " + text_of(c.patch) + " in a picture of " + text_of(c.image) +
                     "; make them smaller");
  need("channels", c.channels), need("d_model", c.d_model), need("the number of layers", std::ssize(c.layers));
  for (const TransformerLayerOptions& layer : c.layers)
    if (layer.d_model != c.d_model)
      throw ShapeError("ImageEncoder: a layer of width " + std::to_string(layer.d_model) + ", the configuration has " +
                       std::to_string(c.d_model));
  return c;
}

// pixels (B, C, H, W) -> (B, P, C * height * width of a patch), row by row.
Tensor cut(const Tensor& pixels, const ImageEncoderConfig& c) {
  const int64_t channels = pixels.size(1), height = pixels.size(2), width = pixels.size(3);
  const ImageSize& p = c.patch;
  return pixels
      .as_strided({pixels.size(0), height / p.height, width / p.width, channels, p.height, p.width},
                  {channels * height * width, p.height * width, p.width, height * width, width, 1})
      .contiguous()
      .reshape({pixels.size(0), c.patches(), channels * p.height * p.width});
}

}  // namespace

ImageEncoder::ImageEncoder(const ImageEncoderConfig& config)
    : config_(checked(config)), patches_(config.channels * config.patch.height * config.patch.width, config.d_model) {
  class_token_ = register_parameter("class_token", normal({config.d_model}, 0, kDeviation));
  register_module("patches", patches_);
  positions_ = register_parameter("positions.weight", normal({1 + config.patches(), config.d_model}, 0, kDeviation));
  layers_ = std::make_unique<TransformerEncoder>(config.layers, /*final_norm=*/true);
  register_module("", *layers_);
  if (config.classes < 1) return;
  output_ = std::make_unique<Linear>(config.d_model, config.classes);
  register_module("head.output", *output_);
}

Variable ImageEncoder::hidden(const Tensor& pixels, AttentionRecord* record) const {
  const ImageEncoderConfig& c = config_;
  if (pixels.rank() != 4 || pixels.size(1) != c.channels || pixels.size(2) != c.image.height ||
      pixels.size(3) != c.image.width || !is_floating(pixels.dtype()))
    throw ShapeError("ImageEncoder: pixels " + to_string(pixels.shape()) + " of " + name_of(pixels.dtype()) +
                     "; the model takes (B, " + std::to_string(c.channels) + ", " + std::to_string(c.image.height) +
                     ", " + std::to_string(c.image.width) + "), floating, as prepare_image makes them");
  const int64_t batch = pixels.size(0), tokens = 1 + c.patches();
  const Variable in_front =
      functional::embedding(Tensor::zeros({batch, 1}, DType::i32), functional::reshape(class_token_, {1, c.d_model}));
  const Variable patches = patches_(Variable(cut(pixels.to(class_token_.dtype()).contiguous(), c)));
  const Tensor places = Tensor::empty({tokens}, DType::i32);
  std::iota(places.data<int32_t>(), places.data<int32_t>() + tokens, 0);
  const Variable x = functional::add(functional::concatenate({in_front, patches}, 1),
                                     functional::embedding(places.expand({batch, tokens}), positions_));
  return (*layers_)(functional::dropout(x, training() ? c.dropout : 0), {}, record);
}

Variable ImageEncoder::apply_head(const Variable& states) const {
  if (!output_) throw UsageError("ImageEncoder: the model has no head; use its states, hidden()");
  const Tensor first = Tensor::empty({states.size(0)}, DType::i32);  // rows of class tokens
  for (int64_t b = 0; b < states.size(0); ++b) first.data<int32_t>()[b] = static_cast<int32_t>(b * states.size(1));
  return (*output_)(
      functional::embedding(first, functional::reshape(states, {states.size(0) * states.size(1), states.size(2)})));
}

}  // namespace heed::inline v0
