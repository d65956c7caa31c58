// Where bytes of a text are, counted in characters, as Python counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/tokenizer.h"

namespace heed::python {

class Characters {
 public:
  /// Of UTF-8.
  explicit Characters(std::string_view text) {
    begun_.reserve(text.size());
    uint32_t characters = 0;
    for (const char c : text) begun_.push_back(characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80);
  }
  /// The characters that bytes belong to, whole ones.
  std::pair<uint32_t, uint32_t> operator()(ByteRange bytes) const {
    const uint32_t all = begun_.empty() ? 0 : begun_.back();
    return {bytes.begin < begun_.size() ? begun_[bytes.begin] - 1 : all,
            bytes.end == 0 ? 0 : begun_[std::min<size_t>(bytes.end, begun_.size()) - 1]};
  }

 private:
  std::vector<uint32_t> begun_;  // at each byte, how many have begun, that byte's own among them
};

}  // namespace heed::python
