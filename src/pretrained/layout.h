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

/// The configuration and the weights of each module of sentence-transformers, by the name of its directory.
using Modules = std::map<std::string, DirectorySnapshot>;

struct PretrainedLayout {
  /// Opens the tensors of files_of_model().
  explicit PretrainedLayout(const DirectorySnapshot& held) : files(held), tensors(held) {}

  Names names{};
  DirectorySnapshot files;
  /// The directory, absolute: the process may change its own. Empty for files in memory.
  std::string directory{};
  TensorFiles tensors;
  Modules modules{};
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
  Modules modules{};        // PretrainedLayout::modules
};
/// How the files of a model with that config.json name their tensors.
Names names_of_files(const std::string& config, const std::string& where, const TensorFiles& files);
inline constexpr const char* kModulesFile = "modules.json";  // of sentence-transformers
/// Opens the directories that modules.json among the `files` of `directory` names. Those that are not there, and a
/// modules.json that is no JSON, are left to load_sentence_modules().
Modules modules_beside(const DirectorySnapshot& files, const std::string& directory);
/// Loads the model of a directory with `overrides` applied. Throws as load_pretrained().
PretrainedModel load_with_overrides(const DirectorySnapshot& files, const Overrides& overrides);

}  // namespace heed::inline v0
