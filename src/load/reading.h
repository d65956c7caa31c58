// Shared by the functions of heed/text_reader.h and heed/picture_reader.h: rows of ids that fit the model, and batches
// of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/text_encoder.h"
#include "heed/text_reader.h"

namespace heed::inline v0 {

/// A text or a pair as a model's input.
struct ReadRow {
  std::vector<int32_t> ids, types;
  std::vector<ByteRange> offsets;
  std::vector<uint8_t> added;
  bool cut = false;
};

/// At most `longest` tokens; special tokens are kept. Throws ShapeError if they leave no room for text.
ReadRow row_of(const Tokenizer& tokenizer, const std::string& text, int64_t longest);
/// A pair. The longer text is cut first, then both.
ReadRow row_of_pair(const Tokenizer& tokenizer, const std::string& first, const std::string& second, int64_t longest);

/// Calls `make` for 0 .. count - 1, in several threads.
std::vector<ReadRow> make_rows(size_t count, const std::function<ReadRow(size_t)>& make);

/// Rows that are computed together.
struct RowBatch {
  std::vector<size_t> rows;  // indices
  TokenBatch tokens;
  Tensor types;  // undefined if the model has none

  /// The part of (1, T, ...) or (B, L, ...) that belongs to row n of the batch: (its length, ...).
  Tensor part(const Tensor& of_all, size_t n) const;
};
/// Makes batches and calls `take` for each, on any thread. Rows without tokens are left out.
void each_batch(const StoredModel& model, const std::vector<ReadRow>& rows,
                const std::function<void(const RowBatch&)>& take);

/// Throws UsageError for a model whose head has another task.
void expect_task(const StoredModel& model, HeadTask task, const char* operation);
/// The model as a text encoder whose head has this task. Throws UsageError for others.
const TextEncoder& expect_head(const StoredModel& model, HeadTask task, const char* operation);

/// Turns scores into probabilities.
std::vector<double> softmax(std::span<const float> scores);
/// The classes of a head with their probabilities or values, the most probable first.
std::vector<ScoredLabel> scored_labels(std::span<const float> logits, const PretrainedHead& head);

/// layers x (1, L, E), and the last states (1, L, E) -> (layers + 1, L, E) float32
Tensor states_of(std::vector<Tensor> layers, const Variable& last);
/// layers x (1, H, Lq, Lk), of one part of the model: "encoder_0" and so on.
void add_weights(const char* part, const std::vector<Tensor>& layers, Reading& reading);

}  // namespace heed::inline v0
