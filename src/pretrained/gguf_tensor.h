// Turns tensors of a GGUF file into heed's.
#pragma once

#include <string>

#include "core/gguf.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// The tensor in the file's dtype; a view of the mapped file if aligned. Throws FormatError for unsupported types and
/// impossible shapes.
Tensor gguf_tensor(const GgufFile& file, const GgufTensor& tensor);

}  // namespace heed::inline v0
