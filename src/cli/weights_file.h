// Attention weights of any program: npy and npz files, with labels in text files.
#pragma once

#include <string>
#include <vector>

#include "heed/view.h"

namespace heed::cli {

struct WeightsFile {
  std::string weights;                // .npy, or .npz with one array or several
  std::vector<std::string> arrays{};  // of an npz, by name; none: all
  /// Text files, a label a line, as FILE or as NAME=FILE for one array; `labels` are for queries and keys.
  std::vector<std::string> labels{}, query_labels{}, key_labels{};
};

struct NamedMap {
  std::string name;  // of the array; of the file, where it is an npy
  AttentionMap map;  // weights (N, H, Lq, Lk) float32
};

/// The name of an array in messages: printable and not too long.
std::string array_in_quotes(const std::string& name);

/// Throws ShapeError for a file that is no weights of attention: its format, dtype, rank, size, or labels that do not
/// fit; IoError. Fortran order and malformed UTF-8 are said on standard error.
std::vector<NamedMap> read_weights(const WeightsFile& file);

}  // namespace heed::cli
