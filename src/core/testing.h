// What the tests of several rooms write: GGUF files, byte by byte, and quantised blocks.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// A file of its own each time: some file systems wait for the disk where one that was emptied is closed.
inline void write_anew(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Blocks of random bits, but for their factors in float16, which are from -0.01 to 0.01.
inline Tensor random_blocks(DType dtype, const Dims& shape) {
  const Tensor t = Tensor::empty(shape, dtype);
  std::mt19937 bits(3);
  std::uniform_real_distribution<float> factor(-0.01f, 0.01f);
  auto* const bytes = static_cast<uint8_t*>(t.raw());
  const int64_t size = bytes_of(dtype, block_of(dtype));
  const bool two = dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k || dtype == DType::q5_k;
  for (int64_t begin = 0; begin < t.nbytes(); begin += size) {
    for (int64_t i = 0; i < size; ++i) bytes[begin + i] = static_cast<uint8_t>(bits());
    uint8_t* const factors = bytes + begin + (dtype == DType::q6_k ? 208 : 0);
    for (int f = 0; f < (two ? 2 : 1); ++f) {
      const float16 half = to_float16(factor(bits));
      std::memcpy(factors + 2 * f, &half, sizeof half);
    }
  }
  return t;
}

class GgufBytes {
 public:
  explicit GgufBytes(uint32_t version = 3) : version_(version) {}

  GgufBytes& integer(const std::string& key, uint32_t value) { return fact(key, 4, bytes_of(value)); }
  GgufBytes& number(const std::string& key, float value) { return fact(key, 6, bytes_of(value)); }
  GgufBytes& flag(const std::string& key, bool value) { return fact(key, 7, std::string(1, value ? 1 : 0)); }
  GgufBytes& text(const std::string& key, std::string_view value) { return fact(key, 8, text_of(value)); }
  GgufBytes& texts(const std::string& key, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += text_of(value);
    return list(key, 8, values.size(), all);
  }
  template <class T>  // uint32_t or float
  GgufBytes& numbers(const std::string& key, const std::vector<T>& values) {
    std::string all;
    for (const T value : values) all += bytes_of(value);
    return list(key, std::is_same_v<T, float> ? 6 : 4, values.size(), all);
  }
  /// A fact of whatever type, its bytes as they are.
  GgufBytes& fact(const std::string& key, uint32_t type, const std::string& bytes) {
    facts_ += text_of(key) + bytes_of(type) + bytes;
    ++count_;
    return *this;
  }
  GgufBytes& list(const std::string& key, uint32_t type, uint64_t count, const std::string& bytes) {
    return fact(key, 9, bytes_of(type) + bytes_of(count) + bytes);
  }
  /// `shape` as the file has it: the length of a row first.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type,
                    const std::string& bytes) {
    data_.resize((data_.size() + 31) / 32 * 32);
    return placed(name, shape, type, data_.size(), bytes);
  }
  GgufBytes& placed(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset,
                    const std::string& bytes = "") {
    infos_ += text_of(name) + bytes_of(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) infos_ += bytes_of(size);
    infos_ += bytes_of(type) + bytes_of(offset);
    data_ += bytes;
    ++tensors_;
    return *this;
  }

  std::string bytes() const {
    std::string all = "GGUF" + bytes_of(version_) + bytes_of(tensors_) + bytes_of(count_) + facts_ + infos_;
    if (!data_.empty()) all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }
  void write(const std::string& path) const { write_anew(path, bytes()); }

  template <class T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text_of(std::string_view text) {
    return bytes_of(static_cast<uint64_t>(text.size())) + std::string(text);
  }

 private:
  uint32_t version_;
  uint64_t count_ = 0, tensors_ = 0;
  std::string facts_, infos_, data_;
};

}  // namespace heed
