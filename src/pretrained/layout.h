// What a model of another maker came from.
#pragma once

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
};

}  // namespace heed::inline v0
