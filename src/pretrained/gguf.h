// A GGUF file in the terms of the hub: what config.json would say, and the pages' rules with the file's names.
#pragma once

#include <string>
#include <vector>

#include "core/gguf.h"
#include "heed/tensor.h"
#include "pretrained/keys.h"
#include "pretrained/names.h"

namespace heed::inline v0 {

class GgufModel {
 public:
  /// Opens the file, and reads no tensor but the factors of Llama 3's positions. Throws IoError; FormatError also for
  /// an architecture that heed has not, and for facts that would change results and that heed does not follow.
  explicit GgufModel(const std::string& path);

  /// As config.json would have it; eos_token_id has all tokens that end a text.
  const Keys& config() const { return config_; }
  const std::vector<std::string>& names() const { return names_; }
  /// Rules of the page of this model, for names(). The tensors are as heed has them: GPT-2's turned, 1 added to Gemma's
  /// norms.
  Names renamed(Names names) const;
  /// With the rows of Llama's queries and keys in the hub's order.
  Tensor tensor(const std::string& name) const;

 private:
  GgufFile file_;
  std::vector<std::string> names_;
  Keys config_;
};

}  // namespace heed::inline v0
