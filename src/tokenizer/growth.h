// How much a tokenizer may make of a text. A tokenizer.json may be untrusted: forty replacements of "a" by "aa" would
// make 2^40 bytes of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "heed/error.h"

namespace heed::inline v0 {

/// Bytes of text, or tokens, that may come of so many bytes. Unicode's normal forms make at most eleven times as many
/// of a single character, and less than twice as many of any language's text.
inline size_t most_of(size_t bytes) {
  constexpr size_t kGrowth = 8, kAlways = size_t{1} << 16;
  return std::min<size_t>(kGrowth * bytes + kAlways, UINT32_MAX);
}

[[noreturn]] inline void refuse_growth(const std::string& operation, size_t most) {
  throw FormatError(operation + ": the tokenizer makes more than " + std::to_string(most) +
                    " bytes or tokens of a text, which is more than 8 times its size; use another tokenizer");
}

/// Takes `size` off `room`.
inline void spend(size_t size, size_t* room) {
  if (size > *room) refuse_growth("tokenize", *room);
  *room -= size;
}

}  // namespace heed::inline v0
