#include "pretrained/gguf_tensor.h"

#include <algorithm>
#include <cstring>

#include "heed/executor.h"
#include "io/load.h"
#include "kernels/quantised.h"

namespace heed::inline v0 {
namespace {

std::optional<DType> plain_dtype(const GgufType& type) {
  const std::string_view name = type.name;
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  return {};
}

Tensor dequantised(const GgufTensor& tensor, const Dims& shape) {
  const GgufType& type = *tensor.type;
  const Tensor all = Tensor::empty(shape, DType::f16);
  const auto blocks = static_cast<int64_t>(tensor.bytes / type.bytes);
  constexpr int64_t kBlocks = 512;  // of a task
  const int64_t tasks = (blocks + kBlocks - 1) / kBlocks;
  parallel_for(default_executor(), tasks, [&](int64_t task) {
    const int64_t first = task * kBlocks;
    dequantise(type, tensor.data + first * type.bytes, std::min(kBlocks, blocks - first),
               all.data<float16>() + first * type.elements);
  });
  return all;
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
  const std::optional<DType> dtype = plain_dtype(*tensor.type);
  const Dims shape = loadable_shape(tensor.shape, dtype.value_or(DType::f16), where);
  if (!dtype) return dequantised(tensor, shape);
  if (tensor.bytes > 0 && reinterpret_cast<uintptr_t>(tensor.data) % size_of(*dtype) == 0)
    return Tensor::borrow(tensor.data, *dtype, shape, row_major_strides(shape), file.owner());
  Tensor copy = Tensor::empty(shape, *dtype);
  if (tensor.bytes > 0) std::memcpy(copy.raw(), tensor.data, tensor.bytes);
  return copy;
}

}  // namespace heed::inline v0
