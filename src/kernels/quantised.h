// Numbers of few bits, which share a factor in blocks: llama.cpp's types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/gguf.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// `blocks` blocks of a quantised type, one behind the other, as blocks * type.elements numbers, rounded to nearest.
void dequantise(const GgufType& type, const std::byte* from, int64_t blocks, float16* to);

}  // namespace heed::inline v0
