#include "heed/picture_reader.h"

#include "heed/finite.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

const ImageEncoder& reader_of(const StoredModel& model, const char* operation) {
  if (const auto* encoder = model.get_if<ImageEncoder>()) return *encoder;
  throw UsageError(std::string(operation) + ": the model is " + what_it_does(model) + "; name one that reads pictures");
}

// Returns the last states (1, 1 + P, E).
Variable states_of_picture(const char* operation, const ImageEncoder& encoder, const Tensor& pixels,
                           AttentionRecord* record) {
  const std::vector<std::pair<std::string, Tensor>> given = {{"pixels", pixels}};
  if (const auto found = first_non_finite(given))
    throw ShapeError(std::string(operation) + ": the picture is not finite: " + *found);
  Variable states = encoder.hidden(pixels, record);
  check_finite(operation, "what the model makes of the picture", states.value(), encoder);
  return states;
}

// Probabilities or scores of all classes: (classes) float32.
Tensor logits_of(const ImageEncoder& encoder, const Variable& states) {
  return encoder.apply_head(states).value().to(DType::f32).select(0, 0).contiguous();
}

std::vector<ScoredLabel> classes_of(const StoredModel& model, const ImageEncoder& encoder, const Variable& states) {
  const Tensor logits = logits_of(encoder, states);
  check_finite("classify", "a score", logits, encoder);
  return scored_labels(logits.span<float>(), model.pretrained().head);
}

}  // namespace

std::vector<ScoredLabel> classify_picture(const StoredModel& model, const Tensor& pixels) {
  const NoGrad no_grad;
  const ImageEncoder& encoder = reader_of(model, "classify");
  if (model.pretrained().head.task != HeadTask::picture_classes)
    throw UsageError("classify: the model is " + what_it_does(model) + "; name one that classifies pictures");
  return classes_of(model, encoder, states_of_picture("classify", encoder, pixels, nullptr));
}

Reading read_picture(const StoredModel& model, const Tensor& pixels, const ReadOptions& options) {
  const NoGrad no_grad;
  const ImageEncoder& encoder = reader_of(model, "logits");
  AttentionRecord record;
  record.want_states = options.want_states;
  const Variable last =
      states_of_picture("logits", encoder, pixels, options.want_states || options.want_weights ? &record : nullptr);
  Reading reading;
  if (encoder.config().classes > 0) {
    reading.logits = logits_of(encoder, last);
    check_finite("logits", "a logit", reading.logits, encoder);
  }
  // As in transformers, the last of these are the states before the last norm.
  if (options.want_states) reading.encoder_states = states_of(record.encoder_states, Variable(record.encoder_last));
  if (options.want_weights) add_weights("encoder", record.encoder, reading);
  return reading;
}

SeenPicture see_picture(const StoredModel& model, const Tensor& pixels, bool want_vectors) {
  const NoGrad no_grad;
  const ImageEncoder& encoder = reader_of(model, "attend");
  const ImageEncoderConfig& c = encoder.config();
  SeenPicture seen{.rows = c.image.height / c.patch.height, .columns = c.image.width / c.patch.width};
  seen.record.want_vectors = want_vectors;
  const Variable states = states_of_picture("attend", encoder, pixels, &seen.record);
  if (c.classes > 0) seen.classes = classes_of(model, encoder, states);
  seen.tokens.emplace_back("[CLS]");
  for (int64_t row = 1; row <= seen.rows; ++row)
    for (int64_t column = 1; column <= seen.columns; ++column)
      seen.tokens.push_back(std::to_string(row) + "," + std::to_string(column));
  return seen;
}

}  // namespace heed::inline v0
