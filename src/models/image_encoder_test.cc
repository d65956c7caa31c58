#include "heed/image_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "heed/random.h"
#include "tests/gradcheck.h"

namespace heed {
namespace {

using test::expect_gradients;
using test::probe;

// (height, width, 3) of bytes that follow no pattern.
Tensor picture(int64_t height, int64_t width) {
  const Tensor result = Tensor::empty({height, width, 3}, DType::u8);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c)
        result.at<uint8_t>(y, x, c) = static_cast<uint8_t>(37 * y * y + 11 * x * x * x + 101 * c + 7 * x * y);
  return result;
}

void expect_begins(const Tensor& got, const std::vector<int>& want) {
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got.data<uint8_t>()[i], want[i]) << i;
}

// What Pillow 12.0 makes of the same pictures.
TEST(PrepareImage, ResizesAsPillow) {
  const Tensor from = picture(5, 7);
  expect_begins(resize_image(from, {3, 4}, Resampling::bilinear),
                {27,  128, 169, 81, 182, 98,  101, 104, 145, 115, 161, 66,  117, 154, 100, 122, 110, 142,
                 120, 154, 107, 70, 147, 147, 101, 189, 47,  190, 86,  136, 123, 152, 91,  47,  148, 98});
  expect_begins(resize_image(from, {3, 4}, Resampling::bicubic),
                {21,  122, 176, 80, 193, 92,  101, 97,  153, 120, 164, 55,  118, 158, 94, 126, 103, 145,
                 122, 156, 103, 65, 145, 159, 96,  200, 38,  202, 73,  146, 128, 152, 89, 36,  151, 98});
  expect_begins(resize_image(from, {6, 9}, Resampling::bilinear),
                {0,   101, 202, 7,   108, 209, 45, 146, 133, 78, 179, 80,  41, 142,
                 243, 158, 60,  161, 138, 125, 84, 87,  188, 33, 72,  173, 18, 28});
  expect_begins(resize_image(from, {6, 9}, Resampling::bicubic),
                {0,   99,  199, 0,   101, 228, 45, 146, 129, 80, 186, 59,  39, 140,
                 250, 177, 41,  166, 149, 126, 76, 78,  204, 24, 68,  169, 14, 20});
  expect_begins(resize_image(from, {3, 4}, Resampling::nearest),
                {0,   101, 202, 88, 189, 34,  192, 37,  138, 72,  173, 18,  148, 249, 94, 8,  109, 210,
                 140, 241, 86,  48, 149, 250, 80,  181, 26,  224, 69,  170, 128, 229, 74, 64, 165, 10});
  expect_begins(resize_image(from, {3, 4}, Resampling::box),
                {26,  127, 164, 92, 193, 102, 97, 70,  171, 122, 159, 68,  161, 134, 107, 120, 93,  194,
                 140, 241, 86,  53, 154, 127, 97, 198, 43,  205, 50,  151, 113, 214, 59,  41,  142, 115});
  expect_begins(resize_image(from, {3, 4}, Resampling::hamming),
                {20,  121, 181, 89, 190, 88,  107, 92,  154, 110, 171, 57,  132, 157, 100, 100, 106, 167,
                 131, 177, 105, 62, 148, 151, 95,  195, 41,  202, 73,  148, 128, 169, 83,  46,  147, 88});
  expect_begins(resize_image(from, {3, 4}, Resampling::lanczos),
                {21,  119, 176, 76, 201, 88,  101, 94,  159, 126, 163, 46,  116, 160, 92, 130, 100, 144,
                 121, 156, 99,  61, 144, 168, 93,  206, 35,  209, 64,  154, 131, 149, 88, 28,  157, 95});
  for (const Resampling copies : {Resampling::nearest, Resampling::box})
    expect_begins(resize_image(from, {6, 9}, copies),
                  {0,   101, 202, 11,  112, 213, 11, 112, 213, 88, 189, 34,  41, 142,
                   243, 192, 37,  138, 95,  196, 41, 95,  196, 41, 72,  173, 18, 37});
  expect_begins(resize_image(from, {6, 9}, Resampling::hamming),
                {0,   101, 202, 9,   110, 211, 40, 141, 146, 85, 186, 46,  41, 142,
                 243, 183, 43,  144, 131, 137, 77, 91,  192, 37, 72,  173, 18, 34});
  expect_begins(resize_image(from, {6, 9}, Resampling::lanczos),
                {1,   102, 193, 0,   96,  242, 53, 146, 118, 73, 189, 60,  40, 137,
                 255, 181, 34,  177, 162, 128, 64, 65,  215, 23, 68,  162, 18, 16});
  const Tensor same = resize_image(from, {5, 7}, Resampling::bicubic);
  for (int64_t i = 0; i < from.numel(); ++i) ASSERT_EQ(same.data<uint8_t>()[i], from.data<uint8_t>()[i]);
}

TEST(PrepareImage, IsUndone) {
  const Tensor from = picture(9, 6);
  const ImagePreparation how{.factor = 1.0 / 255, .mean = {0.1, 0.5, 0.7}, .deviation = {0.2, 0.3, 1}};
  const Tensor back = restore_image(prepare_image(from, how), how);
  ASSERT_EQ(back.shape(), from.shape());
  for (int64_t i = 0; i < from.numel(); ++i) ASSERT_EQ(back.data<uint8_t>()[i], from.data<uint8_t>()[i]) << i;
  // What no byte gives is as close as bytes come.
  const Tensor beyond = Tensor::full({1, 3, 1, 2}, 1e9);
  EXPECT_EQ(restore_image(beyond, how).at<uint8_t>(0, 1, 2), 255);
  EXPECT_THROW(restore_image(Tensor::zeros({3, 4, 4}), how), ShapeError);
  EXPECT_THROW(restore_image(Tensor::zeros({1, 1, 4, 4}), how), ShapeError);
}

TEST(PrepareImage, ResizesCutsAndNormalises) {
  const Tensor from = picture(9, 6);
  const ImagePreparation how{
      .shorter_side = 4, .crop = ImageSize{3, 4}, .factor = 0.5, .mean = {1, 2, 3}, .deviation = {2, 4, 8}};
  const Tensor got = prepare_image(from, how), resized = resize_image(from, {6, 4}, Resampling::bilinear);
  ASSERT_EQ(got.shape(), (Dims{1, 3, 3, 4}));
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t x = 0; x < 4; ++x) {
        const double value = resized.at<uint8_t>(y + 1, x, c) * 0.5;  // (6 - 3) / 2 rows are cut off above
        EXPECT_FLOAT_EQ(got.at<float>(0, c, y, x), static_cast<float>((value - 1 - c) / (2 << c)));
      }
  const Tensor plain = prepare_image(from.slice(0, 1, 3), {.factor = 1});
  EXPECT_EQ(plain.shape(), (Dims{1, 3, 2, 6}));
  EXPECT_EQ(plain.at<float>(0, 2, 1, 5), from.at<uint8_t>(2, 5, 2));
}

TEST(PrepareImage, RefusesWhatIsNoPicture) {
  for (const Tensor& wrong :
       {picture(4, 4).to(DType::f32), Tensor::zeros({4, 4, 4}, DType::u8), Tensor::zeros({4, 4}, DType::u8),
        Tensor::zeros({0, 4, 3}, DType::u8), Tensor::zeros({40000, 1, 3}, DType::u8)})
    EXPECT_THROW(prepare_image(wrong, {}), ShapeError) << to_string(wrong.shape());
  EXPECT_THROW(prepare_image(picture(4, 4), {.crop = ImageSize{5, 4}}), ShapeError);
  EXPECT_THROW(prepare_image(picture(4, 4), {.crop = ImageSize{0, 4}}), ShapeError);
  EXPECT_THROW(prepare_image(picture(4, 4), {.size = ImageSize{4, 40000}}), ShapeError);
  EXPECT_THROW(prepare_image(Tensor::zeros({30000, 1, 3}, DType::u8), {.shorter_side = 2}), ShapeError);
  EXPECT_THROW(prepare_image(picture(4, 4), {.size = ImageSize{32767, 32767}}), ShapeError);  // 3 GB of a few bytes
  EXPECT_THROW(prepare_image(Tensor::zeros({32767, 1, 3}, DType::u8), {.size = ImageSize{2, 32767}}), ShapeError);
}

ImageEncoderConfig small() {
  return {.image = {5, 7},  // a row and a column are left over
          .patch = {2, 3},
          .channels = 2,
          .d_model = 4,
          .layers = {{.d_model = 4,
                      .nhead = 2,
                      .dim_feedforward = 5,
                      .dropout = 0,
                      .activation = {Activation::gelu},
                      .norm_first = true}},
          .classes = 3};
}

// A convolution whose step is its size, behind the class token, and the positions.
TEST(ImageEncoder, PatchesAreAConvolution) {
  manual_seed(5);
  ImageEncoder model(small());
  model.to(DType::f64);
  std::map<std::string, Tensor> own;
  for (const auto& [name, parameter] : model.named_parameters()) own[name] = parameter.value();
  const Tensor pixels = normal({3, 2, 5, 7}, 0, 1, DType::f64);
  AttentionRecord record;
  record.want_states = true;
  const Variable states = model.hidden(pixels, &record);
  EXPECT_EQ(states.shape(), (Dims{3, 5, 4}));
  ASSERT_EQ(record.encoder.size(), 1u);
  EXPECT_EQ(record.encoder[0].shape(), (Dims{3, 2, 5, 5}));
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t e = 0; e < 4; ++e) {
      const double at_front = own["class_token"].at<double>(e) + own["positions.weight"].at<double>(0, e);
      EXPECT_NEAR(record.encoder_states[0].at<double>(b, 0, e), at_front, 1e-12);
      for (int64_t patch = 0; patch < 4; ++patch) {
        double sum = own["patches.bias"].at<double>(e) + own["positions.weight"].at<double>(1 + patch, e);
        for (int64_t c = 0; c < 2; ++c)
          for (int64_t y = 0; y < 2; ++y)
            for (int64_t x = 0; x < 3; ++x)
              sum += pixels.at<double>(b, c, patch / 2 * 2 + y, patch % 2 * 3 + x) *
                     own["patches.weight"].at<double>(e, (c * 2 + y) * 3 + x);
        EXPECT_NEAR(record.encoder_states[0].at<double>(b, 1 + patch, e), sum, 1e-12);
      }
    }
  const Variable logits = model.logits(pixels);
  ASSERT_EQ(logits.shape(), (Dims{3, 3}));
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t i = 0; i < 3; ++i) {
      double sum = own["head.output.bias"].at<double>(i);
      for (int64_t e = 0; e < 4; ++e)
        sum += states.value().at<double>(b, 0, e) * own["head.output.weight"].at<double>(i, e);
      EXPECT_NEAR(logits.value().at<double>(b, i), sum, 1e-12);
    }
}

TEST(ImageEncoder, Gradients) {
  manual_seed(6);
  ImageEncoder model(small());
  model.to(DType::f64);
  const Tensor pixels = normal({2, 2, 5, 7}, 0, 1, DType::f64), p = normal({2, 3}, 0, 1, DType::f64);
  expect_gradients([&] { return probe(model.logits(pixels), p); }, model.parameters());
}

TEST(ImageEncoder, RefusesWhatDoesNotFit) {
  manual_seed(7);
  ImageEncoderConfig config = small();
  const ImageEncoder model(config);
  const NoGrad no_grad;
  EXPECT_EQ(model.logits(normal({1, 2, 5, 7}, 0, 1)).shape(), (Dims{1, 3}));
  for (const Dims& shape : {Dims{1, 3, 5, 7}, Dims{1, 2, 7, 5}, Dims{2, 5, 7}})
    EXPECT_THROW(model.logits(normal(shape, 0, 1)), ShapeError) << to_string(shape);
  EXPECT_THROW(model.logits(Tensor::zeros({1, 2, 5, 7}, DType::u8)), ShapeError);
  config.classes = 0;
  EXPECT_THROW(ImageEncoder(config).logits(normal({1, 2, 5, 7}, 0, 1)), UsageError);
  config.patch = {6, 3};
  EXPECT_THROW(ImageEncoder{config}, ShapeError);
  config.patch = {0, 3};
  EXPECT_THROW(ImageEncoder{config}, ShapeError);
  config = small();
  config.layers[0].d_model = 8;
  EXPECT_THROW(ImageEncoder{config}, ShapeError);
  config.layers.clear();
  EXPECT_THROW(ImageEncoder{config}, ShapeError);
}

}  // namespace
}  // namespace heed
