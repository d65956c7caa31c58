#include <algorithm>
#include <cmath>
#include <numbers>

#include "heed/image_encoder.h"

namespace heed::inline v0 {
namespace {

// As in Pillow, weights are integers that sum to 2^22, so that a sum of bytes times weights stays below 2^31.
constexpr int kBits = 22;

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double sinc(double x) {
  x *= std::numbers::pi;
  return x == 0 ? 1 : std::sin(x) / x;
}

double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

double hamming(double x) {
  x = std::abs(x);
  return x < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi)) : 0;
}

double box(double x) { return -0.5 < x && x <= 0.5 ? 1 : 0; }

// A filter's support and value.
struct Filter {
  double support;
  double (*at)(double);
};

Filter filter_of(Resampling resampling) {
  switch (resampling) {
    case Resampling::bilinear:
      return {1, triangle};
    case Resampling::bicubic:
      return {2, cubic};
    case Resampling::lanczos:
      return {3, lanczos};
    case Resampling::box:
      return {0.5, box};
    case Resampling::hamming:
      return {1, hamming};
    case Resampling::nearest:
      break;
  }
  throw Error("prepare_image: nearest has no filter");
}

// Resampling of one line of pixels: output i is the sum of `weights` times the inputs from `first` on.
struct Mix {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Mix> mixes(int64_t from, int64_t to, Resampling resampling) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), widened = std::max(scale, 1.0);
  if (resampling == Resampling::nearest) {
    std::vector<Mix> nearest;
    double at = scale / 2;  // accumulated as Pillow does
    for (int64_t i = 0; i < to; ++i, at += scale)
      nearest.push_back({std::min(static_cast<int64_t>(at), from - 1), {1 << kBits}});
    return nearest;
  }
  const Filter filter = filter_of(resampling);
  const double support = filter.support * widened;
  std::vector<Mix> all;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<int64_t>(center + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1 / widened);
      weights.push_back(filter.at(distance));
      sum += weights.back();
    }
    Mix mix{.first = first, .weights = {}};
    for (const double weight : weights)
      mix.weights.push_back(static_cast<int32_t>(std::round(weight / sum * (1 << kBits))));
    all.push_back(std::move(mix));
  }
  return all;
}

uint8_t mixed(const Mix& mix, const uint8_t* from, int64_t stride) {
  int32_t sum = 1 << (kBits - 1);
  for (const int32_t weight : mix.weights) {
    sum += weight * *from;
    from += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

void check(const Tensor& picture) {
  if (picture.rank() != 3 || picture.size(2) != 3 || picture.dtype() != DType::u8)
    throw ShapeError("prepare_image: a picture " + to_string(picture.shape()) + " of " + name_of(picture.dtype()) +
                     "; give (H, W, 3) of u8");
  for (const int64_t side : {picture.size(0), picture.size(1)})
    if (side < 1 || side > kLongestSide)
      throw ShapeError("prepare_image: a picture with a side of " + std::to_string(side) +
                       " pixels; it must be in 1.." + std::to_string(kLongestSide));
}

ImageSize with_shorter_side(const Tensor& picture, int64_t shorter) {
  const int64_t height = picture.size(0), width = picture.size(1);
  if (width <= height) return {shorter * height / width, shorter};
  return {shorter, shorter * width / height};
}

Tensor middle(const Tensor& picture, const ImageSize& size) {
  const int64_t height = picture.size(0), width = picture.size(1);
  if (size.height < 1 || size.height > height || size.width < 1 || size.width > width)
    throw ShapeError("prepare_image: " + std::to_string(size.height) + " x " + std::to_string(size.width) +
                     " pixels are to be cut out of " + std::to_string(height) + " x " + std::to_string(width) +
                     "; resize the picture to that at least");
  const int64_t top = (height - size.height) / 2, left = (width - size.width) / 2;
  return picture.slice(0, top, top + size.height).slice(1, left, left + size.width);
}

}  // namespace

Tensor resize_image(const Tensor& picture, ImageSize size, Resampling resampling) {
  check(picture);
  const int64_t height = picture.size(0), width = picture.size(1);
  for (const int64_t side : {size.height, size.width})
    if (side < 1 || side > kLongestSide)
      throw ShapeError("prepare_image: a picture is to get a side of " + std::to_string(side) +
                       " pixels; it must be in 1.." + std::to_string(kLongestSide));
  // A small untrusted configuration sets the size; columns come first.
  if (std::max(height, size.height) * size.width > kMostPreparedPixels)
    throw ShapeError("prepare_image: a picture of " + std::to_string(height) + " x " + std::to_string(width) +
                     " is to get " + std::to_string(size.height) + " x " + std::to_string(size.width) +
                     " pixels; at most " + std::to_string(kMostPreparedPixels) +
                     " are made on the way: resize it to less, or make it smaller before");
  Tensor lines = picture.contiguous();
  if (size.width != width) {
    const std::vector<Mix> columns = mixes(width, size.width, resampling);
    const Tensor narrow = Tensor::empty({height, size.width, 3}, DType::u8);
    uint8_t* to = narrow.data<uint8_t>();
    for (int64_t y = 0; y < height; ++y)
      for (const Mix& mix : columns)
        for (int64_t c = 0; c < 3; ++c) *to++ = mixed(mix, lines.data<uint8_t>() + (y * width + mix.first) * 3 + c, 3);
    lines = narrow;
  }
  if (size.height == height) return lines;
  const Tensor result = Tensor::empty({size.height, size.width, 3}, DType::u8);
  uint8_t* to = result.data<uint8_t>();
  const int64_t row = size.width * 3;
  for (const Mix& mix : mixes(height, size.height, resampling))
    for (int64_t x = 0; x < row; ++x) *to++ = mixed(mix, lines.data<uint8_t>() + mix.first * row + x, row);
  return result;
}

Tensor prepare_image(const Tensor& picture, const ImagePreparation& how) {
  check(picture);
  Tensor pixels = picture;
  if (how.size)
    pixels = resize_image(pixels, *how.size, how.resampling);
  else if (how.shorter_side)
    pixels = resize_image(pixels, with_shorter_side(pixels, *how.shorter_side), how.resampling);
  if (how.crop) pixels = middle(pixels, *how.crop);
  const int64_t height = pixels.size(0), width = pixels.size(1);
  const Tensor result = Tensor::empty({1, 3, height, width});
  float* to = result.data<float>();
  for (int c = 0; c < 3; ++c) {
    const auto mean = static_cast<float>(how.mean[static_cast<size_t>(c)]);
    const auto deviation = static_cast<float>(how.deviation[static_cast<size_t>(c)]);
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        *to++ = (static_cast<float>(pixels.at<uint8_t>(y, x, c) * how.factor) - mean) / deviation;
  }
  return result;
}

Tensor restore_image(const Tensor& pixels, const ImagePreparation& how) {
  if (pixels.rank() != 4 || pixels.size(0) != 1 || pixels.size(1) != 3)
    throw ShapeError("restore_image: pixels " + to_string(pixels.shape()) + "; give (1, 3, height, width)");
  const Tensor values = pixels.to(DType::f64);
  const int64_t height = pixels.size(2), width = pixels.size(3);
  const Tensor result = Tensor::empty({height, width, 3}, DType::u8);
  uint8_t* to = result.data<uint8_t>();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const auto n = static_cast<size_t>(c);
        const double value = (values.at<double>(0, c, y, x) * how.deviation[n] + how.mean[n]) / how.factor;
        *to++ = static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
  return result;
}

}  // namespace heed::inline v0
