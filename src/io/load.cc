#include "io/load.h"

#include <algorithm>
#include <limits>

#include "heed/checked.h"
#include "heed/io.h"

namespace heed::inline v0 {

Dims loadable_shape(const std::vector<int64_t>& shape, DType dtype, const std::string& where) {
  if (shape.size() > kMaxRank)
    throw FormatError(where + ": " + std::to_string(shape.size()) + " dimensions; a tensor has at most " +
                      std::to_string(kMaxRank));
  CheckedSize extent = size_of(dtype);  // the strides of an empty tensor must fit, too
  for (const int64_t size : shape) extent = checked_multiply(extent, static_cast<uint64_t>(std::max<int64_t>(size, 1)));
  if (!extent || *extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    throw FormatError(where + ": the strides of shape " + shape_text(shape) + " overflow 64 bits");
  return Dims(shape.begin(), shape.end());
}

Dims row_major_strides(const Dims& shape) {
  Dims strides = shape;
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

void check_booleans(const std::byte* data, size_t size, const std::string& where) {
  const auto* odd = std::find_if(data, data + size, [](std::byte b) { return b > std::byte{1}; });
  if (odd != data + size)
    throw FormatError(where + ": the boolean " + std::to_string(odd - data) + " has the byte " +
                      std::to_string(static_cast<int>(*odd)) + "; it must be 0 or 1");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  constexpr size_t kMost = 16;
  std::string text = "(";
  for (size_t i = 0; i < shape.size() && i < kMost; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > kMost ? ", ...)" : ")");
}

}  // namespace heed::inline v0
