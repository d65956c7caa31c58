// A text that came from another one, and where its bytes came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tokenizer.h"
#include "text/unicode.h"

namespace heed::inline v0 {

/// Valid UTF-8. While nothing moved, no positions are stored: most texts are such.
class AlignedText {
 public:
  AlignedText() = default;
  /// A part of the text that offsets count in, which begins there at `begin`. It is not copied.
  AlignedText(std::string_view source, uint32_t begin) : borrowed_(source), begin_(begin), straight_(true) {}

  /// The most bytes of what is written from it. Texts that are written inherit it, and throw FormatError beyond.
  void bound(size_t most) { most_ = most; }
  size_t most() const { return most_; }

  std::string_view text() const { return borrowed_.data() ? borrowed_ : std::string_view(own_); }
  size_t size() const { return text().size(); }

  /// What the character that holds this byte came from.
  ByteRange source(size_t byte) const;
  /// From where the first byte came from to where the last one did; begin < end.
  ByteRange source(size_t begin, size_t end) const;

  /// A part of it, which must not outlive it.
  AlignedText slice(size_t begin, size_t end) const;

  /// Appends bytes of another one with their sources.
  void copy(const AlignedText& from, size_t begin, size_t end);
  /// Appends a character with one source for all its bytes.
  void put(std::string_view character, ByteRange source);

 private:
  void store_positions();
  void expect_room(size_t bytes) const;

  std::string_view borrowed_;  // or else own_
  std::string own_;
  uint32_t begin_ = 0;
  size_t most_ = UINT32_MAX;
  bool straight_ = true;            // each character came from as many bytes, and they follow each other from begin_ on
  std::vector<ByteRange> sources_;  // of each byte, where not straight_
};

/// Writes a changed text: goes once over a part of a text and appends to another one.
class Rewriter {
 public:
  Rewriter(const AlignedText& from, size_t begin, size_t end, AlignedText* to)
      : from_(from), text_(from.text()), begin_(begin), at_(begin), end_(end), to_(*to) {
    to_.bound(from.most());
  }
  Rewriter(const AlignedText& from, AlignedText* to) : Rewriter(from, 0, from.size(), to) {}

  bool done() const { return at_ == end_; }
  size_t at() const { return at_; }
  std::string_view rest() const { return text_.substr(at_, end_ - at_); }
  DecodedCharacter peek() const { return decode_utf8(rest()); }

  void copy(size_t bytes) {
    to_.copy(from_, at_, at_ + bytes);
    at_ += bytes;
  }
  void skip(size_t bytes) { at_ += bytes; }
  /// A character in the place of the next `bytes` ones, which came from where the first of them did.
  void replace(size_t bytes, char32_t code);
  /// A character that comes from where the one before it did.
  void insert(char32_t code);
  void insert(std::string_view characters);
  /// The next character, or what it will be: where it came from.
  ByteRange here() const { return from_.source(at_); }
  void put(std::string_view character, ByteRange source) { to_.put(character, source); }
  void put_all(std::string_view characters, ByteRange source);

  /// Of a character and how many more there are now than before: above 0 it was inserted, at 0 it replaces one, below
  /// 0 it replaces one and the following ones go.
  void change(char32_t code, int64_t difference);

 private:
  ByteRange before() const;

  const AlignedText& from_;
  std::string_view text_;
  size_t begin_, at_, end_;
  AlignedText& to_;
};

}  // namespace heed::inline v0
