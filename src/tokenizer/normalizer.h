// Normalizers: change a text before it is cut into words. Each says its part's type in tokenizer.json; where characters
// came from is kept as the tokenizers package does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/pattern.h"

namespace heed::inline v0 {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText* text) const = 0;
  /// True for Lowercase, and for a Sequence with Lowercase among its parts.
  virtual bool lowercases() const { return false; }
};
using NormalizerPtr = std::shared_ptr<const Normalizer>;

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents{};  // as `lowercase` where it is not given
  bool lowercase = true;
};

enum class NormalForm { c, d, kc, kd };

NormalizerPtr make_normal_form(NormalForm form);                                 // NFC, NFD, NFKC, NFKD
NormalizerPtr make_lowercase();                                                  // Lowercase
NormalizerPtr make_strip_accents();                                              // StripAccents
NormalizerPtr make_strip(bool left, bool right);                                 // Strip
NormalizerPtr make_prepend(std::string prefix);                                  // Prepend
NormalizerPtr make_replace(Pattern pattern, std::string content);                // Replace
NormalizerPtr make_nmt();                                                        // Nmt
NormalizerPtr make_byte_level_normalizer();                                      // ByteLevel
NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& o);              // BertNormalizer
NormalizerPtr make_precompiled(std::string_view map, const std::string& where);  // Precompiled: the bytes of the map
NormalizerPtr make_sequence(std::vector<NormalizerPtr> normalizers);             // Sequence

/// Replaces the characters of a text by others; a step of several normalizers.
void decompose_canonically(AlignedText* text);
void lower_case(AlignedText* text);

}  // namespace heed::inline v0
