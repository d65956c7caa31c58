// The tensors of a directory: one safetensors file, or several with an index.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"

namespace heed::inline v0 {

/// All files that may belong to a directory's model: tensors, configurations, the tokenizer's files, cards, and weights
/// in formats that heed does not read. Throws as DirectorySnapshot.
DirectorySnapshot files_of_model(const std::string& directory);

class TensorFiles {
 public:
  /// Opens model.safetensors, or the files that model.safetensors.index.json names; if several have a tensor, the last
  /// one is used. Reads headers only. Throws IoError, and FormatError also for an index that points outside the
  /// directory.
  explicit TensorFiles(const DirectorySnapshot& files);

  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const { return place_.contains(name); }
  const TensorInfo& info(const std::string& name) const { return file(name).info(name); }
  Tensor tensor(const std::string& name) const { return file(name).tensor(name); }
  const std::string& where() const { return where_; }
  /// SafetensorsFile::first_non_finite() of the first file that has one. Opens the files again: training a model
  /// changes what is mapped here.
  std::optional<std::string> first_non_finite() const;

 private:
  const SafetensorsFile& file(const std::string& name) const { return files_.at(place_.at(name)); }
  void add(SafetensorsFile file);
  std::string where_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> place_;
  std::vector<std::string> names_;
};

}  // namespace heed::inline v0
