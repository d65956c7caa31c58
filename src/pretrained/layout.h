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
  /// Opens the directory's files, and holds them.
  explicit PretrainedLayout(const std::string& directory);

  Names names{};
  TensorFiles tensors;
  std::vector<std::string> text_names;  // configurations, the tokenizer's files, cards
  DirectorySnapshot texts;

  /// What a model has that is not that of the files any longer: config.json and all tensors, by name.
  struct Anew {
    std::string config;
    std::map<std::string, std::vector<int64_t>> shapes;
    DType dtype;
  };
  std::optional<Anew> anew{};
};

}  // namespace heed::inline v0
