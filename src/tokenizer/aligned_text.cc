#include "tokenizer/aligned_text.h"

#include "tokenizer/growth.h"

namespace heed::inline v0 {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

ByteRange AlignedText::source(size_t byte) const {
  if (!straight_) return sources_[byte];
  const std::string_view all = text();
  size_t begin = byte, end = byte + 1;
  while (begin > 0 && continues(all[begin])) --begin;
  while (end < all.size() && continues(all[end])) ++end;
  return {begin_ + static_cast<uint32_t>(begin), begin_ + static_cast<uint32_t>(end)};
}

ByteRange AlignedText::source(size_t begin, size_t end) const { return {source(begin).begin, source(end - 1).end}; }

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  AlignedText part(text().substr(begin, end - begin), begin_ + static_cast<uint32_t>(begin));
  part.bound(most_);
  if (!straight_) {
    part.straight_ = false;
    part.sources_.assign(sources_.begin() + static_cast<int64_t>(begin), sources_.begin() + static_cast<int64_t>(end));
  }
  return part;
}

void AlignedText::store_positions() {
  if (!straight_) return;
  straight_ = false;
  sources_.reserve(own_.capacity());
  for (size_t at = 0; at < own_.size();) {
    size_t end = at + 1;
    while (end < own_.size() && continues(own_[end])) ++end;
    sources_.insert(sources_.end(), end - at,
                    {begin_ + static_cast<uint32_t>(at), begin_ + static_cast<uint32_t>(end)});
    at = end;
  }
}

void AlignedText::expect_room(size_t bytes) const {
  if (bytes > most_ - std::min(most_, own_.size())) refuse_growth("tokenize", most_);
}

void AlignedText::copy(const AlignedText& from, size_t begin, size_t end) {
  bound(from.most_);
  if (begin == end) return;
  expect_room(end - begin);
  const std::string_view part = from.text().substr(begin, end - begin);
  const uint32_t source_begin = from.begin_ + static_cast<uint32_t>(begin);
  if (own_.empty()) begin_ = source_begin;
  if (!from.straight_) {
    store_positions();
    sources_.insert(sources_.end(), from.sources_.begin() + static_cast<int64_t>(begin),
                    from.sources_.begin() + static_cast<int64_t>(end));
  } else if (!straight_ || source_begin != begin_ + own_.size()) {
    store_positions();
    for (size_t at = begin; at < end;) {
      const ByteRange source = from.source(at);
      const size_t length = source.end - source.begin;
      sources_.insert(sources_.end(), length, source);
      at += length;
    }
  }
  own_ += part;
}

void AlignedText::put(std::string_view character, ByteRange source) {
  expect_room(character.size());
  if (own_.empty()) begin_ = source.begin;
  if (!straight_ || source.begin != begin_ + own_.size() || source.end - source.begin != character.size()) {
    store_positions();
    sources_.insert(sources_.end(), character.size(), source);
  }
  own_ += character;
}

ByteRange Rewriter::before() const {
  if (at_ > begin_) return from_.source(at_ - 1);
  const uint32_t begin = begin_ < end_ ? from_.source(begin_).begin : 0;
  return {begin, begin};
}

void Rewriter::replace(size_t bytes, char32_t code) {
  std::string character;
  append_utf8(code, &character);
  to_.put(character, here());
  at_ += bytes;
}

void Rewriter::insert(char32_t code) {
  std::string character;
  append_utf8(code, &character);
  to_.put(character, before());
}

void Rewriter::insert(std::string_view characters) { put_all(characters, before()); }

void Rewriter::put_all(std::string_view characters, ByteRange source) {
  while (!characters.empty()) {
    const auto length = static_cast<size_t>(decode_utf8(characters).length);
    to_.put(characters.substr(0, length), source);
    characters.remove_prefix(length);
  }
}

void Rewriter::change(char32_t code, int64_t difference) {
  if (difference > 0 || done()) return insert(code);
  replace(static_cast<size_t>(peek().length), code);
  for (; difference < 0 && !done(); ++difference) skip(static_cast<size_t>(peek().length));
}

}  // namespace heed::inline v0
