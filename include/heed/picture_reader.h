// Models that read images: classification, and all intermediate results. Pixels are the model's input (1, channels,
// height, width), made by prepare_image() with the options of load_image_preparation(). All functions throw UsageError
// for an unsuitable model, with a description of it, ShapeError for pixels of another shape or that are not finite, and
// Error for results that are not finite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/load.h"
#include "heed/text_reader.h"

namespace heed::inline v0 {

/// All classes, most probable first, for a model with HeadTask::picture_classes.
std::vector<ScoredLabel> classify_picture(const StoredModel& model, const Tensor& pixels);

/// The counterpart of read_ids(): logits (classes) if the model has a head; encoder_states (layers + 1, 1 + P, E),
/// where, as in transformers, the last ones are the output of the last layer before the last norm; weights "encoder_0",
/// ... (H, 1 + P, 1 + P).
Reading read_picture(const StoredModel& model, const Tensor& pixels, const ReadOptions& options = {});

/// An image as the model's input: the class token, then the patches row by row.
struct SeenPicture {
  AttentionRecord record{};            // its `encoder` part
  std::vector<ScoredLabel> classes{};  // as from classify_picture(); empty without a head
  int64_t rows = 0, columns = 0;       // numbers of patches
  std::vector<std::string> tokens{};   // names of all 1 + P: "[CLS]", then row and column from 1, "3,4"
};
SeenPicture see_picture(const StoredModel& model, const Tensor& pixels, bool want_vectors = false);

}  // namespace heed::inline v0
