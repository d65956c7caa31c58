// The implementation of a Tokenizer: the parts of a tokenizer.json, or one of heed's own vocabularies.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heed/tokenizer.h"
#include "tokenizer/aligned_text.h"

namespace heed::inline v0 {

/// A text as it was given, which offsets count in, and with U+FFFD for what is not UTF-8.
struct GivenText {
  std::string_view given;
  AlignedText text;
};

class Tokenizer::Implementation {
 public:
  virtual ~Implementation() = default;
  /// One text or two.
  virtual Encoding encode(std::span<const GivenText> texts, bool special_tokens) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  virtual std::optional<std::string> token(int32_t id) const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::optional<int32_t> unknown() const = 0;
  virtual int64_t size() const = 0;
  virtual std::optional<std::string> own_text(int32_t id) const = 0;
  virtual bool special(int32_t id) const = 0;
  virtual bool language(int32_t) const { return false; }
  virtual bool special_by_name(int32_t id) const { return special(id); }
  virtual std::optional<std::string> named(const std::string&) const { return std::nullopt; }
  virtual TokenizerRules rules() const { return {}; }
  /// Null if the tokenizer has no normalizers.
  virtual std::shared_ptr<const Implementation> lowercased() const { return nullptr; }
};

}  // namespace heed::inline v0
