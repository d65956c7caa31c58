#include "heed/tokenizer.h"

#include <vector>

#include "text/unicode.h"
#include "tokenizer/implementation.h"

namespace heed::inline v0 {
namespace {

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
int64_t Tokenizer::size() const { return implementation_->size(); }
bool Tokenizer::special(int32_t id) const { return implementation_->special(id); }

TokenStream::TokenStream(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string TokenStream::push(int32_t id) {
  ids_.push_back(id);
  return rest(/*last=*/false);
}

std::string TokenStream::finish() { return rest(/*last=*/true); }

// Decoders look at the token before at the most, so the one before what is new goes through them again.
std::string TokenStream::rest(bool last) {
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  if (!last && text.ends_with("\uFFFD")) return {};  // perhaps the beginning of a character
  if (text.size() <= told_text_.size()) return {};
  std::string out = text.substr(told_text_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<int64_t>(told_));
  told_ = ids_.size();
  told_text_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

}  // namespace heed::inline v0
