// Translates a GGUF file to Hugging Face's terms: the keys of config.json, and the families' rules with the file's
// names.
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
  /// Opens the file; reads no tensors except the factors of Llama 3's positions. Throws IoError. Throws FormatError
  /// also for an unsupported architecture and for facts that affect results and that heed does not support.
  explicit GgufModel(const std::string& path);

  /// The facts under the keys of config.json. eos_token_id holds all tokens that end a text.
  const Keys& config() const { return config_; }
  const std::vector<std::string>& names() const { return names_; }
  /// These, and for a language model the name of its head in Hugging Face's files, which is the embedding if the file
  /// has no other.
  std::vector<std::string> hub_names() const;
  /// The family's rules, with the names of names(). GGUF files already have GPT-2's matrices transposed and 1 added to
  /// Gemma's norms, as heed does.
  Names renamed(Names names) const;
  /// A tensor, with the rows of Llama's queries and keys in Hugging Face's order.
  Tensor tensor(const std::string& name) const;

 private:
  GgufFile file_;
  std::vector<std::string> names_;
  Keys config_;
};

}  // namespace heed::inline v0
