// From the tensors of a GGUF file to heed's.
#pragma once

#include <string>

#include "core/gguf.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// The tensor in the file's own dtype and memory, where that is aligned. Throws FormatError for types that heed does
/// not read and for what no tensor can be.
Tensor gguf_tensor(const GgufFile& file, const GgufTensor& tensor);

}  // namespace heed::inline v0
