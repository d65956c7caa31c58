// Models that read pictures: their classes, and all that is computed on the way. Pixels are what the model takes,
// (1, channels, height, width), as prepare_image() makes them of a picture (load_image_preparation() says how). All
// throw UsageError for a model of another kind, which says what the model is; ShapeError for pixels of another shape
// and for such as are not finite; Error where what the model computes is not finite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/load.h"
#include "heed/text_reader.h"

namespace heed::inline v0 {

/// All classes, the most probable first: of a model with HeadTask::picture_classes.
std::vector<ScoredLabel> classify_picture(const StoredModel& model, const Tensor& pixels);

/// What read_ids() gives of a text: logits (classes) where the model has a head, encoder_states (layers + 1, 1 + P, E),
/// of which the last are what leaves the last layer, before the last norm, as transformers lists them; the weights of
/// "encoder_0" and so on (H, 1 + P, 1 + P).
Reading read_picture(const StoredModel& model, const Tensor& pixels, const ReadOptions& options = {});

/// A picture as a model took it: the class token, then the patches, row by row.
struct SeenPicture {
  AttentionRecord record{};            // its `encoder` part
  std::vector<ScoredLabel> classes{};  // as classify_picture() gives them; none without a head
  int64_t rows = 0, columns = 0;       // of patches
  std::vector<std::string> tokens{};   // names of all 1 + P: "[CLS]", then row and column from 1, "3,4"
};
SeenPicture see_picture(const StoredModel& model, const Tensor& pixels, bool want_vectors = false);

}  // namespace heed::inline v0
