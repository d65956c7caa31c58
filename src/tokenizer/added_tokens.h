// Tokens that are found in a text before anything else happens to it, such as "<|endoftext|>".
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/token_table.h"
#include "tokenizer/trie.h"

namespace heed::inline v0 {

struct AddedToken {
  std::string content{};
  bool single_word = false;  // only where no letter or digit stands beside it
  bool lstrip = false;       // with the whitespace before it
  bool rstrip = false;       // with the whitespace behind it
  bool normalized = false;   // found in the normalized text, as its normalized self
  bool special = false;
  bool may_change = false;  // `normalized` is not given, and becomes false with make_special()
  bool text = false;  // given as a text: transformers does not find it equal to an object with the same attributes

  void make_special() {
    if (may_change) normalized = false;
    special = true;
  }
  bool operator==(const AddedToken& other) const {
    return content == other.content && single_word == other.single_word && lstrip == other.lstrip &&
           rstrip == other.rstrip && normalized == other.normalized && special == other.special && text == other.text;
  }
};

/// A part of a text: a token, or what lies between two (id is TokenTable::kNone).
struct Section {
  size_t begin, end;
  int32_t id = TokenTable::kNone;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// A token that the model has keeps its id, the others follow the model's in their order. If a content occurs again,
  /// the last one decides how it is found, as in the tokenizers package; it is special if one of them is, and decoders
  /// see it normalized if one of them is. Empty contents are skipped. `normalizer` may be null. Throws FormatError for
  /// one of more than 1024 bytes.
  AddedTokens(std::vector<AddedToken> tokens, const TokenTable& model, const Normalizer* normalizer,
              const std::string& where);

  /// The tokens as another normalizer makes them. `normalizer` may be null.
  AddedTokens with(const Normalizer* normalizer) const;

  /// The sections of a text as it was given, or of a normalized one. They may overlap where whitespace belongs to
  /// two tokens.
  std::vector<Section> find(std::string_view text, bool normalized) const;

  int32_t id_of(std::string_view token) const;  // TokenTable::kNone
  /// The content as it was given. data() == nullptr for none.
  std::string_view content(int32_t id) const;
  /// As decoders see it: the content, of a normalized token the normalized one. data() == nullptr for none.
  std::string_view text(int32_t id) const;
  bool is_special(std::string_view token) const { return special_.contains(token); }
  int32_t largest_id() const { return by_id_.empty() ? -1 : by_id_.rbegin()->first; }

 private:
  void normalize(const Normalizer* normalizer);

  std::vector<AddedToken> tokens_;
  std::vector<bool> normalized_once_;  // of each: whether one of its forms is normalized
  std::vector<int32_t> ids_;           // of each
  std::vector<std::string> texts_;     // of each
  std::map<std::string, size_t, std::less<>> by_content_;
  std::map<int32_t, size_t> by_id_;
  std::set<std::string, std::less<>> special_;
  Trie as_given_, normalized_;  // of places in tokens_
};

}  // namespace heed::inline v0
