// What a model of another maker came from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"
#include "pretrained/files.h"
#include "pretrained/names.h"

namespace heed::inline v0 {

struct PretrainedLayout {
  /// Opens the tensors of files_of_model().
  explicit PretrainedLayout(const DirectorySnapshot& held) : files(held), tensors(held) {}

  Names names{};
  DirectorySnapshot files;
  TensorFiles tensors;

  /// What a model has that is not that of the files any longer: config.json and all tensors, by name.
  struct Anew {
    std::string config;
    std::map<std::string, std::vector<int64_t>> shapes;
    DType dtype;
  };
  std::optional<Anew> anew{};
};

}  // namespace heed::inline v0
