// From the tensors of a GGUF file to heed's.
#pragma once

#include <string>

#include "core/gguf.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// The tensor's own memory is the file's where it is F32, F16 or BF16 and aligned for that. Quantised ones become f16,
/// which rounds a number by 2^-11 of itself at most: far less than quantising did. Throws FormatError for types that
/// heed does not read and for what no tensor can be.
Tensor gguf_tensor(const GgufFile& file, const GgufTensor& tensor);

}  // namespace heed::inline v0
