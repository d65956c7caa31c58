// Training a TextEncoder to tell the class of a text (sequence classification), an ImageEncoder that of a picture.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/text_encoder.h"
#include "heed/train.h"

namespace heed::inline v0 {

/// Texts as the model reads them, special tokens included, each with its class.
struct LabelledTexts {
  std::vector<std::vector<int32_t>> ids{};
  std::vector<int32_t> labels{};  // 0 .. outputs - 1 of the model's head
};

/// Pictures, each with its class. They are asked for again and again, so that no more of them than a batch are in
/// memory.
struct LabelledPictures {
  std::vector<std::string> names{};  // which tell whether a training goes on with the same pictures
  std::vector<int32_t> labels{};     // 0 .. classes - 1 of the model
  /// Picture i, (1, channels, height, width) floating, as prepare_image() gives it. What it throws ends the training.
  std::function<Tensor(int64_t i)> pixels{};
};

/// Trains a model whose head has one result for a text, and keeps a directory as train() of a Transformer does. A
/// batch is TrainOptions::batch texts, shuffled anew each epoch; targets and sequences of the reports are texts. Types
/// of tokens are 0. Throws as that does: ShapeError also for a head of another kind, labels that it has no output for,
/// and texts that are empty or longer than max_positions.
TrainResult train(TextEncoder& model, const LabelledTexts& training, const LabelledTexts& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});

/// The share of texts whose label has the greatest logit, 0 to 1, without dropout; `batch` texts are read together.
/// Throws as train().
double accuracy(TextEncoder& model, const LabelledTexts& texts, int64_t batch = 32);

/// Likewise for pictures. Throws ShapeError also for a model without classes and for pictures of another size.
TrainResult train(ImageEncoder& model, const LabelledPictures& training, const LabelledPictures& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks = {});
double accuracy(ImageEncoder& model, const LabelledPictures& pictures, int64_t batch = 32);

}  // namespace heed::inline v0
