#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "heed/error.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/growth.h"

namespace heed::inline v0 {
namespace {

constexpr size_t kLongest = 1024;  // bytes

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(decode_utf8(text.substr(last_character(text))).code);
}
bool begins_with_word(std::string_view text) { return !text.empty() && is_word_character(decode_utf8(text).code); }

// How many bytes of whitespace a text begins with.
size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const DecodedCharacter c = decode_utf8(text.substr(at));
    if (!is_white_space(c.code)) break;
    at += static_cast<size_t>(c.length);
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TokenTable& model, const Normalizer* normalizer,
                         const std::string& where) {
  const auto model_size = static_cast<int32_t>(model.count());
  for (AddedToken& token : tokens) {
    if (token.content.size() > kLongest)
      throw FormatError(where + ": an added token of " + std::to_string(token.content.size()) + " bytes; at most " +
                        std::to_string(kLongest) + " are read");
    if (token.content.empty()) continue;
    if (const auto found = by_content_.find(token.content); found != by_content_.end()) {
      if (token.special) special_.insert(token.content);
      normalized_once_[found->second] = normalized_once_[found->second] || token.normalized;
      tokens_[found->second] = std::move(token);
      continue;
    }
    int32_t id = model.find(token.content);
    if (id == TokenTable::kNone && largest_id() >= INT32_MAX - 1)
      throw FormatError(where + ": an added token would get the id 2^31 - 1 or above, which heed does not read");
    if (id == TokenTable::kNone) id = std::max(model_size, largest_id() + 1);
    if (token.special) special_.insert(token.content);
    by_content_.emplace(token.content, tokens_.size());
    by_id_.emplace(id, tokens_.size());
    ids_.push_back(id);
    normalized_once_.push_back(token.normalized);
    tokens_.push_back(std::move(token));
  }
  normalize(normalizer);
}

AddedTokens AddedTokens::with(const Normalizer* normalizer) const {
  AddedTokens result = *this;
  result.normalize(normalizer);
  return result;
}

void AddedTokens::normalize(const Normalizer* normalizer) {
  std::vector<std::pair<std::string_view, int32_t>> given, normalized;
  texts_.clear();
  size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.content.size();
  for (size_t room = most_of(bytes); const AddedToken& token : tokens_) {
    AlignedText text(token.content, 0);
    text.bound(room);
    if (normalized_once_[texts_.size()] && normalizer) normalizer->apply(&text);
    texts_.emplace_back(text.text());
    spend(text.size(), &room);
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].normalized) {
      normalized.emplace_back(texts_[i], static_cast<int32_t>(i));
    } else {
      given.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
    }
  }
  as_given_ = Trie(std::move(given));
  normalized_ = Trie(std::move(normalized));
}

std::vector<Section> AddedTokens::find(std::string_view text, bool normalized) const {
  const Trie& trie = normalized ? normalized_ : as_given_;
  std::vector<Section> sections;
  size_t last = 0;                        // end of the last section
  size_t blank_begin = 0, blank_end = 0;  // a run of whitespace that was seen
  const auto end_of_blank = [&](size_t begin) {
    if (begin < blank_begin || begin > blank_end) {
      blank_begin = begin;
      blank_end = begin + leading_space(text.substr(begin));
    }
    return std::max(begin, blank_end);
  };
  for (size_t at = trie.next_root(text, 0); at < text.size();) {
    size_t length = 0;
    int32_t place = -1;
    trie.prefixes(text.substr(at), [&](size_t n, int32_t found) { length = n, place = found; });
    if (place < 0) {
      at = trie.next_root(text, at + 1);
      continue;
    }
    size_t begin = at, end = at + length;
    at = trie.next_root(text, end);
    const AddedToken& token = tokens_[static_cast<size_t>(place)];
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token.lstrip) begin = last + (begin > last ? trimmed_end(text.substr(last, begin - last)) : 0);
    if (token.rstrip) end = end_of_blank(end);
    if (begin >= end) continue;  // within the whitespace of the token before
    if (last < begin) sections.push_back({last, begin});
    sections.push_back({begin, end, ids_[static_cast<size_t>(place)]});
    last = end;
  }
  if (last < text.size()) sections.push_back({last, text.size()});
  return sections;
}

int32_t AddedTokens::id_of(std::string_view token) const {
  const auto found = by_content_.find(token);
  return found == by_content_.end() ? TokenTable::kNone : ids_[found->second];
}

std::string_view AddedTokens::content(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::string_view() : tokens_[found->second].content;
}

std::string_view AddedTokens::text(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::string_view() : texts_[found->second];
}

}  // namespace heed::inline v0
