// Training of classifiers: a TextEncoder for texts (sequence classification), an ImageEncoder for images.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/text_encoder.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// Texts as the model's input, special tokens included, with their classes.
struct LabelledTexts {
  std::vector<std::vector<int32_t>> ids{};
  std::vector<int32_t> labels{};  // 0 .. outputs - 1 of the model's head
};

/// Images with their classes. They are read again for each use, so that only one batch is in memory.
struct LabelledPictures {
  std::vector<std::string> names{};  // used to check that a resumed training has the same images
  std::vector<int32_t> labels{};     // 0 .. classes - 1 of the model
  /// Image i, (1, channels, height, width) floating, as from prepare_image(). An exception ends the training.
  std::function<Tensor(int64_t i)> pixels{};
};

/// Trains a model whose head has one result per text, and writes a directory as train() of a Transformer does. A batch
/// has TrainOptions::batch texts; their order is reshuffled each epoch. Targets and sequences in the reports are texts.
/// Token types are 0. Throws as train() of a Transformer; ShapeError also for another kind of head, for labels without
/// an output, and for texts that are empty or longer than max_positions.
TrainResult train(TextEncoder& model, const LabelledTexts& training, const LabelledTexts& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The share of texts whose label has the greatest logit, 0 to 1, without dropout; `batch` texts are computed together.
/// Throws as train().
double accuracy(TextEncoder& model, const LabelledTexts& texts, int64_t batch = 32);

/// The same for images. Throws ShapeError also for a model without classes and for images of another size.
TrainResult train(ImageEncoder& model, const LabelledPictures& training, const LabelledPictures& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});
double accuracy(ImageEncoder& model, const LabelledPictures& pictures, int64_t batch = 32);

}  // namespace heed::inline v0
