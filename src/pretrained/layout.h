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

struct PretrainedModel;

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

/// What is not that of a directory in a model: other or further tensors, by the names of its files, those that are left
/// out, and the text of config.json.
struct Altered {
  std::map<std::string, Tensor> tensors{};
  std::vector<std::string> without{};
  std::string config{};
};
/// How the files of a model with that config.json name their tensors.
Names names_of_files(const std::string& config, const std::string& where, const TensorFiles& files);
/// The model of a directory as it is altered. Throws as load_pretrained().
PretrainedModel load_altered(const DirectorySnapshot& files, const Altered& altered);

}  // namespace heed::inline v0
