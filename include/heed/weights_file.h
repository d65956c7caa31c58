// Attention weights that any program saved: npy and npz files, with labels in text files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heed/view.h"

namespace heed::inline v0 {

struct WeightsFile {
  std::string weights;                // the path of an .npy file, or of an .npz file with one or more arrays
  std::vector<std::string> arrays{};  // names of arrays of an .npz file; empty: all
  /// Text files with one label on each line, as FILE, or as NAME=FILE for one array. `labels` are for queries and keys.
  std::vector<std::string> labels{}, query_labels{}, key_labels{};
  std::function<void(const std::string&)> on_warning{};  // Fortran order, and malformed UTF-8 in labels
};

struct NamedMap {
  std::string name;  // of the array; for an .npy file, the name of the file
  AttentionMap map;  // weights (N, H, Lq, Lk) float32
};

/// The name of an array for messages, in quotes: printable and at most 60 columns.
std::string array_in_quotes(const std::string& name);

/// The maps of a file. Arrays are float16, float32 or float64 of shape (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk), with at
/// most 2^16 tokens, 2^14 heads and 2^29 weights. Throws ShapeError for other arrays, for a file of another format and
/// for labels that do not fit, and IoError.
std::vector<NamedMap> read_weights(const WeightsFile& file);

}  // namespace heed::inline v0
