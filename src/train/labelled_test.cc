#include "heed/labelled.h"

#include <gtest/gtest.h>

#include "train/testing.h"

namespace heed {
namespace {

class Labelled : public TrainTest {
 protected:
  static TextEncoderConfig shape(int64_t labels) {
    const TransformerLayerOptions layer{.d_model = 16, .nhead = 2, .dim_feedforward = 32, .dropout = 0};
    TextEncoderConfig c{.vocab_size = 12, .d_model = 16, .max_positions = 16, .dropout = 0, .layers = {layer, layer}};
    c.head = EncoderHead{.of_first_token = true, .dense = Activation::tanh, .outputs = labels};
    return c;
  }
  // The label says whether a text has token 7.
  static LabelledTexts texts(int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    LabelledTexts all;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int32_t> ids{1};
      for (unsigned n = generator() % 6 + 2; n > 0; --n) ids.push_back(static_cast<int32_t>(2 + generator() % 5));
      if (i % 2) ids[1 + generator() % (ids.size() - 1)] = 7;
      all.ids.push_back(ids);
      all.labels.push_back(static_cast<int32_t>(i % 2));
    }
    return all;
  }
  static TrainOptions options(int64_t updates) {
    TrainOptions o = quick();
    o.batch = 16, o.max_updates = updates, o.label_smoothing = 0, o.average = 1, o.validate_every = 20;
    return o;
  }
};

TEST_F(Labelled, LearnsAndGoesOnWithTheSameBits) {
  const LabelledTexts training = texts(200, 1), validation = texts(60, 2);
  const std::string whole = directory("whole"), cut = directory("cut");
  manual_seed(1);
  TextEncoder model(shape(2));
  EXPECT_LT(accuracy(model, validation), 0.8);
  const TrainResult result = train(model, training, validation, options(120), whole);
  EXPECT_LT(result.best_nll, 0.1);
  EXPECT_GT(accuracy(model, validation, 7), 0.95);
  for (const int64_t updates : {33, 120}) {
    manual_seed(1);
    TextEncoder again(shape(2));
    train(again, training, validation, options(updates), cut);
  }
  EXPECT_EQ(model_bytes(cut), model_bytes(whole));
}

class LabelledPicturesOf : public Labelled {
 protected:
  static ImageEncoderConfig shape(int64_t classes) {
    const TransformerLayerOptions layer{.d_model = 16, .nhead = 2, .dim_feedforward = 32, .dropout = 0.1};
    return {
        .image = {8, 8}, .patch = {4, 4}, .channels = 1, .d_model = 16, .layers = {layer, layer}, .classes = classes};
  }
  // Noise, of which the left or the right half is brighter.
  static LabelledPictures pictures(int64_t count, uint64_t seed) {
    LabelledPictures all;
    for (int64_t i = 0; i < count; ++i) {
      all.names.push_back(std::to_string(seed) + "/" + std::to_string(i));
      all.labels.push_back(static_cast<int32_t>(i % 2));
    }
    all.pixels = [seed](int64_t i) {
      std::mt19937 generator(static_cast<unsigned>(seed) + static_cast<unsigned>(i));
      const Tensor pixels = Tensor::empty({1, 1, 8, 8});
      for (int64_t y = 0; y < 8; ++y)
        for (int64_t x = 0; x < 8; ++x)
          pixels.at<float>(0, 0, y, x) = static_cast<float>(generator() % 1000) / 500 + (x / 4 == i % 2 ? 2.0F : 0.0F);
      return pixels;
    };
    return all;
  }
};

TEST_F(LabelledPicturesOf, LearnsAndGoesOnWithTheSameBits) {
  const LabelledPictures training = pictures(64, 1000), validation = pictures(40, 5000);
  const std::string whole = directory("whole"), cut = directory("cut");
  manual_seed(1);
  ImageEncoder model(shape(2));
  const TrainResult result = train(model, training, validation, options(80), whole);
  EXPECT_LT(result.best_nll, 0.1);
  EXPECT_GT(accuracy(model, validation, 7), 0.95);
  for (const int64_t updates : {33, 80}) {
    manual_seed(1);
    ImageEncoder again(shape(2));
    train(again, training, validation, options(updates), cut);
  }
  EXPECT_EQ(model_bytes(cut), model_bytes(whole));
  LabelledPictures others = training;
  others.names[3] += "!";
  EXPECT_THROW(train(model, others, validation, options(90), cut), TrainingDiffers);
}

TEST_F(LabelledPicturesOf, Refusals) {
  const LabelledPictures good = pictures(10, 1);
  const auto refuses = [&](int64_t classes, const LabelledPictures& training) {
    ImageEncoder model(shape(classes));
    EXPECT_THROW(train(model, training, good, options(1), (root_ / "m").string()), ShapeError);
  };
  refuses(0, good);
  refuses(2, {});
  refuses(1, good);
  LabelledPictures bad = good;
  bad.labels.pop_back();
  refuses(2, bad);
  bad = good;
  bad.pixels = nullptr;
  refuses(2, bad);
  bad.pixels = [](int64_t) { return Tensor::zeros({1, 1, 8, 9}); };
  refuses(2, bad);
}

TEST_F(Labelled, Refusals) {
  const LabelledTexts good = texts(10, 1);
  const auto refuses = [&](const TextEncoderConfig& config, const LabelledTexts& training) {
    TextEncoder model(config);
    EXPECT_THROW(train(model, training, good, options(1), (root_ / "m").string()), ShapeError);
  };
  TextEncoderConfig tokens = shape(2), headless = shape(2);
  tokens.head->of_first_token = false;
  headless.head.reset();
  refuses(tokens, good);
  refuses(headless, good);
  refuses(shape(2), {});
  LabelledTexts bad = good;
  bad.labels[3] = 2;
  refuses(shape(2), bad);
  bad = good;
  bad.ids[3].assign(17, 2);
  refuses(shape(2), bad);
  bad = good;
  bad.ids[3].clear();
  refuses(shape(2), bad);
  bad = good;
  bad.ids[3][0] = 12;
  refuses(shape(2), bad);
  bad = good;
  bad.labels.pop_back();
  refuses(shape(2), bad);
}

}  // namespace
}  // namespace heed
