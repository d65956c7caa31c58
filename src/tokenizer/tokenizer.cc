#include "heed/tokenizer.h"

#include <vector>

#include "text/unicode.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/decoder.h"
#include "tokenizer/implementation.h"
#include "tokenizer/model.h"

namespace heed::inline v0 {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

GivenText checked(std::string_view text) {
  if (text.size() > Tokenizer::kLongestText)
    throw ShapeError("tokenize: a text of " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(Tokenizer::kLongestText) + " are taken: cut it");
  if (!text.data()) text = "";
  if (valid_utf8(text)) return {text, AlignedText(text, 0)};
  AlignedText out;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter c = decode_utf8(text.substr(at));
    const auto begin = static_cast<uint32_t>(at), length = static_cast<uint32_t>(c.length);
    out.put(c.valid ? text.substr(at, length) : "\uFFFD", {begin, begin + length});
    at += length;
  }
  return {text, std::move(out)};
}

// What byte-level tokenizers store for part of a character, as <0xHH>; others as it is.
std::string shown_bytes(const std::string& stored) {
  std::string shown;
  for (std::string_view rest = stored; !rest.empty();) {
    const DecodedCharacter c = decode_utf8(rest);
    const int byte = byte_of_character(c.code);
    if (byte < 0) return stored;
    if (byte < 0x80) {
      shown += static_cast<char>(byte);
    } else {
      shown += byte_token(static_cast<uint8_t>(byte));
    }
    rest.remove_prefix(static_cast<size_t>(c.length));
  }
  return shown;
}

}  // namespace

Encoding Tokenizer::encode(std::string_view text, bool special_tokens) const {
  const std::vector<GivenText> texts{checked(text)};
  return implementation_->encode(texts, special_tokens);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, bool special_tokens) const {
  const std::vector<GivenText> texts{checked(first), checked(second)};
  return implementation_->encode(texts, special_tokens);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  return implementation_->decode(ids, skip_special);
}

std::optional<std::string> Tokenizer::token(int32_t id) const { return implementation_->token(id); }
std::optional<int32_t> Tokenizer::id_of(std::string_view token) const { return implementation_->id_of(token); }
std::optional<int32_t> Tokenizer::unknown() const { return implementation_->unknown(); }

std::string Tokenizer::written(int32_t id) const {
  std::string stored = token(id).value_or("");
  if (special(id)) return stored;
  // Decoders treat the first token otherwise than those behind it.
  const std::vector<int32_t> twice(2, id);
  const std::string first = decode({&id, 1}, /*skip_special=*/false), both = decode(twice, /*skip_special=*/false);
  if (both.size() <= first.size() || !both.starts_with(first)) return stored;
  std::string text = both.substr(first.size());
  return text.find("\uFFFD") == std::string::npos ? text : shown_bytes(stored);
}

std::optional<std::string> Tokenizer::own_text(int32_t id) const { return implementation_->own_text(id); }

int64_t Tokenizer::size() const { return implementation_->size(); }
bool Tokenizer::special(int32_t id) const { return implementation_->special(id); }
bool Tokenizer::language(int32_t id) const { return implementation_->language(id); }
bool Tokenizer::special_by_name(int32_t id) const { return implementation_->special_by_name(id); }
std::optional<std::string> Tokenizer::named(const std::string& name) const { return implementation_->named(name); }
TokenizerRules Tokenizer::rules() const { return implementation_->rules(); }

Tokenizer Tokenizer::lowercased() const {
  std::shared_ptr<const Implementation> lowercased = implementation_->lowercased();
  if (!lowercased)
    throw UsageError("tokenize: heed's own vocabularies cannot lowercase texts; pass texts in lower case");
  return Tokenizer(std::move(lowercased));
}

TokenStream::TokenStream(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string TokenStream::push(int32_t id) {
  ids_.push_back(id);
  return rest(/*last=*/false);
}

std::string TokenStream::finish() { return rest(/*last=*/true); }

bool TokenStream::is_byte(int32_t id) const { return byte_of_token(tokenizer_.token(id).value_or("")) >= 0; }

void TokenStream::follow(std::span<const int32_t> ids) {
  constexpr size_t kSeen = 16;
  const bool follows = !ids.empty();
  // Bytes at the end make no row with those that come.
  while (!ids.empty() && is_byte(ids.back())) ids = ids.first(ids.size() - 1);
  ids_.assign(ids.end() - std::ssize(ids.last(std::min(kSeen, ids.size()))), ids.end());
  for (int32_t id = 0; follows && ids_.empty() && id < tokenizer_.size();
       ++id)  // any token: what comes is not the first
    if (!is_byte(id) && !tokenizer_.decode(std::span(&id, 1)).empty()) ids_ = {id};
  told_ = ids_.size();
  told_text_ = tokenizer_.decode(ids_, skip_special_);
  while (told_text_.ends_with(kReplacement)) told_text_.resize(told_text_.size() - kReplacement.size());
}

// Decoders look at the token before at the most, so the one before what is new goes through them again.
std::string TokenStream::rest(bool last) {
  auto end = ids_.rbegin();
  while (skip_special_ && end != ids_.rend() && tokenizer_.special(*end)) ++end;
  if (!last && end != ids_.rend() && is_byte(*end)) return {};
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  if (!last && text.ends_with(kReplacement)) return {};  // perhaps the beginning of a character
  if (text.size() <= told_text_.size()) return {};
  std::string out = text.substr(told_text_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<int64_t>(told_));
  told_ = ids_.size();
  told_text_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

}  // namespace heed::inline v0
