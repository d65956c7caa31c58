// The files that a third-party model was loaded from.
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
  /// The directory, absolute: the process may change its own. Empty for files in memory.
  std::string directory{};
  TensorFiles tensors;
  /// config.json: that of the files, or the one after a change of the model.
  std::string config{};

  /// All tensors by name, if they are no longer those of the files.
  struct Rewritten {
    std::map<std::string, std::vector<int64_t>> shapes;
    DType dtype;  // of tensors that the files do not have
  };
  std::optional<Rewritten> rewritten{};
};

/// Replacements for parts of a directory: tensors by their names in its files (new names are added), tensors to leave
/// out, and the text of config.json.
struct Overrides {
  std::map<std::string, Tensor> tensors{};
  std::vector<std::string> without{};
  std::string config{};
  std::string directory{};  // PretrainedLayout::directory
};
/// How the files of a model with that config.json name their tensors.
Names names_of_files(const std::string& config, const std::string& where, const TensorFiles& files);
inline constexpr const char* kModulesFile = "modules.json";  // of sentence-transformers
/// The files of the directories that `modules`, the text of a directory's modules.json, names. Throws as
/// module_files().
std::map<std::string, std::string> files_of_modules(const std::string& directory, const std::string& modules);
/// Loads the model of a directory with `overrides` applied. Throws as load_pretrained().
PretrainedModel load_with_overrides(const DirectorySnapshot& files, const Overrides& overrides);

}  // namespace heed::inline v0
