// Pre-tokenizers: cut a text into words, each of which the model turns into tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/pattern.h"

namespace heed::inline v0 {

/// Words are parts of a text. `as_bytes`: each byte of it stands for its character of byte_characters.h, in which the
/// model's tokens are written; so the text need not be rewritten for models that know.
struct Words {
  AlignedText text;
  std::vector<std::pair<size_t, size_t>> parts;  // first byte and one behind the last
  bool as_bytes = false;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// No empty words are left.
  virtual void apply(Words* words) const = 0;
};
using PreTokenizerPtr = std::shared_ptr<const PreTokenizer>;

/// How the matched parts of a text are treated.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

enum class PrependScheme { first, never, always };

struct MetaspaceOptions {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::always;
  bool split = true;
};

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;
  bool leave_bytes = false;  // sets as_bytes instead of rewriting the text
};

PreTokenizerPtr make_byte_level(const ByteLevelOptions& o);                        // ByteLevel
PreTokenizerPtr make_metaspace(MetaspaceOptions o);                                // Metaspace
PreTokenizerPtr make_split(Pattern pattern, SplitBehavior behavior, bool invert);  // Split
PreTokenizerPtr make_bert_pre_tokenizer();                                         // BertPreTokenizer
PreTokenizerPtr make_digits(bool individual);                                      // Digits
PreTokenizerPtr make_punctuation(SplitBehavior behavior);                          // Punctuation
PreTokenizerPtr make_whitespace();                                                 // Whitespace
PreTokenizerPtr make_whitespace_split();                                           // WhitespaceSplit
PreTokenizerPtr make_fixed_length(size_t characters);                              // FixedLength
PreTokenizerPtr make_sequence(std::vector<PreTokenizerPtr> pre_tokenizers);        // Sequence

}  // namespace heed::inline v0
