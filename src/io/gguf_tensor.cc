#include "io/gguf_tensor.h"

#include <algorithm>
#include <cstring>

#include "heed/executor.h"
#include "io/load.h"

namespace heed::inline v0 {
namespace {

// The blocks of llama.cpp's ggml-common.h. Numbers of 4 bits stand in pairs: the lower halves of bytes are the first
// half of the numbers.

float half_at(const uint8_t* at) {
  float16 half{};
  std::memcpy(&half, at, sizeof half);
  return to_float(half);
}

int low(uint8_t byte) { return byte & 15; }
int high(uint8_t byte) { return byte >> 4; }

void q8_0(const uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// Q4_0, Q4_1, Q5_0 and Q5_1: a factor, a minimum or the middle of the range, and where there is one the fifth bit.
void legacy(const uint8_t* block, bool has_minimum, bool five_bits, float* to) {
  const float d = half_at(block), middle = five_bits ? 16 : 8;
  const float minimum = has_minimum ? half_at(block + 2) : 0;
  const uint8_t* at = block + (has_minimum ? 4 : 2);
  uint32_t fifth = 0;
  if (five_bits) {
    std::memcpy(&fifth, at, sizeof fifth);
    at += sizeof fifth;
  }
  for (int i = 0; i < 32; ++i) {
    const int q = (i < 16 ? low(at[i]) : high(at[i - 16])) | static_cast<int>(fifth >> i & 1) << 4;
    to[i] = has_minimum ? d * static_cast<float>(q) + minimum : d * (static_cast<float>(q) - middle);
  }
}

// Of part i of eight: 6 bits for the factor and 6 for the minimum, packed in 12 bytes.
std::pair<float, float> factors(const uint8_t* packed, int i) {
  if (i < 4) return {static_cast<float>(packed[i] & 63), static_cast<float>(packed[i + 4] & 63)};
  const int d = low(packed[i + 4]) | packed[i - 4] >> 6 << 4, m = high(packed[i + 4]) | packed[i] >> 6 << 4;
  return {static_cast<float>(d), static_cast<float>(m)};
}

// Q4_K and Q5_K: eight parts of 32, two of which share bytes.
void k_parts(const uint8_t* block, bool five_bits, float* to) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const uint8_t* const fifth = block + 16;
  const uint8_t* const numbers = fifth + (five_bits ? 32 : 0);
  for (int part = 0; part < 8; ++part) {
    const auto [factor, minimum] = factors(block + 4, part);
    const float by = d * factor, less = dmin * minimum;
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = numbers[part / 2 * 32 + i];
      const int q = (part % 2 ? high(byte) : low(byte)) | (five_bits ? (fifth[i] >> part & 1) << 4 : 0);
      *to++ = by * static_cast<float>(q) - less;
    }
  }
}

// Two halves of 128: four quarters, whose lower 4 bits share 64 bytes and whose upper 2 bits share 32; a factor for 16.
void q6_k(const uint8_t* block, float* to) {
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const lower = block + 64 * half;
    const uint8_t* const upper = block + 128 + 32 * half;
    const uint8_t* const factor = block + 192 + 8 * half;
    for (int quarter = 0; quarter < 4; ++quarter)
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = lower[quarter % 2 * 32 + i];
        const int q = ((quarter < 2 ? low(byte) : high(byte)) | (upper[i] >> 2 * quarter & 3) << 4) - 32;
        *to++ = d * static_cast<float>(static_cast<int8_t>(factor[quarter * 2 + i / 16])) * static_cast<float>(q);
      }
  }
}

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
    float numbers[256];
    auto* to = all.data<float16>() + task * kBlocks * type.elements;
    for (int64_t b = task * kBlocks; b < std::min(blocks, (task + 1) * kBlocks); ++b) {
      dequantise(type, tensor.data + b * type.bytes, numbers);
      to = std::transform(numbers, numbers + type.elements, to, to_float16);
    }
  });
  return all;
}

}  // namespace

void dequantise(const GgufType& type, const std::byte* block, float* to) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(block);
  const std::string_view name = type.name;
  if (name == "Q8_0") return q8_0(bytes, to);
  if (name == "Q6_K") return q6_k(bytes, to);
  if (name == "Q4_K" || name == "Q5_K") return k_parts(bytes, name == "Q5_K", to);
  legacy(bytes, name.ends_with('1'), name.starts_with("Q5"), to);
}

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
