#include "pretrained/gguf_tensor.h"

#include <cstring>

#include "io/load.h"

namespace heed::inline v0 {
namespace {

DType dtype_of_type(std::string_view name) {
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  if (name == "Q8_0") return DType::q8;
  if (name == "Q4_0") return DType::q4_0;
  if (name == "Q4_1") return DType::q4_1;
  if (name == "Q5_0") return DType::q5_0;
  if (name == "Q5_1") return DType::q5_1;
  if (name == "Q4_K") return DType::q4_k;
  if (name == "Q5_K") return DType::q5_k;
  return DType::q6_k;
}

}  // namespace

Tensor gguf_tensor(const GgufFile& file, const GgufTensor& tensor) {
  const std::string where = file.path() + ": tensor " + printable(tensor.name);
  if (!tensor.type) {
    std::string known;
    for (const GgufType& type : kGgufTypes) known += (known.empty() ? "" : ", ") + std::string(type.name);
    throw FormatError(where + " is of type " + std::to_string(tensor.type_id) + "; heed reads " + known +
                      ": quantise the model to one of them");
  }
  const DType dtype = dtype_of_type(tensor.type->name);
  const bool blocks = is_quantised(dtype);
  const Dims shape = loadable_shape(tensor.shape, blocks ? DType::f16 : dtype, where);
  const size_t alignment = blocks ? alignof(q8_block) : size_of(dtype);
  if (tensor.bytes > 0 && reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0)
    return Tensor::borrow(tensor.data, dtype, shape, row_major_strides(shape), file.owner());
  Tensor copy = Tensor::empty(shape, dtype);
  if (tensor.bytes > 0) std::memcpy(copy.raw(), tensor.data, tensor.bytes);
  return copy;
}

}  // namespace heed::inline v0
