// From what a header says to a Tensor: what safetensors and npy share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// Throws FormatError "WHERE: ..." for more dimensions than a tensor has, or sizes that a tensor cannot address.
Dims loadable_shape(const std::vector<int64_t>& shape, DType dtype, const std::string& where);

Dims row_major_strides(const Dims& shape);

/// A byte other than 0 and 1 read as bool is undefined behaviour: throws FormatError.
void check_booleans(const std::byte* data, size_t size, const std::string& where);

}  // namespace heed::inline v0
