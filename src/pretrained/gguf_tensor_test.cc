#include "pretrained/gguf_tensor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/testing.h"
#include "heed/error.h"

namespace heed {
namespace {

std::string half(float x) { return GgufBytes::bytes_of(to_float16(x).bits); }

TEST(GgufTensors, OfAllKinds) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("heed_gguf_tensor_" + std::to_string(getpid()))).string();
  std::string floats, halves, brains, blocks, nibbles, larger;
  for (int i = 0; i < 6; ++i) {
    floats += GgufBytes::bytes_of(0.1f * static_cast<float>(i));
    halves += half(0.5f * static_cast<float>(i));
    brains += GgufBytes::bytes_of(to_bfloat16(static_cast<float>(i)).bits);
  }
  const int64_t rows = 1000;  // several tasks
  for (int64_t row = 0; row < rows; ++row) {
    blocks += half(0.5f) + std::string(32, static_cast<char>(row % 100));
    nibbles += half(0.5f) + std::string(16, static_cast<char>(row % 16 * 17));
    // Factors 1 and minima 3 of all parts: 6 bits of each in the first eight bytes, 4 and 4 in the last four.
    larger += half(0.5f) + half(1) + std::string(4, '\1') + std::string(4, '\3') + std::string(4, '\x31') +
              std::string(128, static_cast<char>(row % 16 * 17));
  }
  GgufBytes()
      .tensor("f32", {3, 2}, 0, floats)
      .tensor("f16", {3, 2}, 1, halves)
      .tensor("bf16", {6}, 30, brains)
      .tensor("q8_0", {32, rows}, 8, blocks)
      .tensor("q4_0", {32, rows}, 2, nibbles)
      .tensor("q4_k", {256, rows}, 12, larger)
      .tensor("none", {0, 2}, 0, "")
      .tensor("odd", {256}, 23, "x")
      .write(path);
  const GgufFile file(path);
  const Tensor f32 = gguf_tensor(file, *file.tensor("f32"));
  EXPECT_EQ(f32.shape(), (Dims{2, 3}));
  EXPECT_EQ(static_cast<const void*>(f32.raw()), file.tensor("f32")->data);  // where the file is mapped
  EXPECT_EQ(f32.at<float>(1, 2), 0.1f * 5);
  EXPECT_EQ(gguf_tensor(file, *file.tensor("f16")).to(DType::f32).at<float>(1, 0), 1.5f);
  EXPECT_EQ(gguf_tensor(file, *file.tensor("bf16")).dtype(), DType::bf16);
  const Tensor q8 = gguf_tensor(file, *file.tensor("q8_0"));
  EXPECT_EQ(q8.dtype(), DType::q8);
  EXPECT_EQ(static_cast<const void*>(q8.raw()), file.tensor("q8_0")->data);
  EXPECT_EQ(q8.shape(), (Dims{rows, 32}));
  const Tensor q4 = gguf_tensor(file, *file.tensor("q4_0"));
  EXPECT_EQ(q4.dtype(), DType::q4_0);
  EXPECT_EQ(static_cast<const void*>(q4.raw()), file.tensor("q4_0")->data);
  EXPECT_EQ(q4.shape(), (Dims{rows, 32}));
  const Tensor k4 = gguf_tensor(file, *file.tensor("q4_k"));
  EXPECT_EQ(k4.dtype(), DType::q4_k);
  EXPECT_EQ(static_cast<const void*>(k4.raw()), file.tensor("q4_k")->data);
  EXPECT_EQ(k4.shape(), (Dims{rows, 256}));
  const Tensor wide = q8.to(DType::f32), wide4 = q4.to(DType::f32), widek = k4.to(DType::f32);
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_EQ(wide.at<float>(row, 31), 0.5f * static_cast<float>(row % 100));
    EXPECT_EQ(wide4.at<float>(row, 31), 0.5f * static_cast<float>(row % 16 - 8));
    EXPECT_EQ(widek.at<float>(row, 255), 0.5f * static_cast<float>(row % 16) - 3);
  }
  EXPECT_EQ(gguf_tensor(file, *file.tensor("none")).numel(), 0);
  EXPECT_THROW(gguf_tensor(file, *file.tensor("odd")), FormatError);
  std::filesystem::remove(path);
}

// The file's table of types and the tensors' dtypes tell of the same blocks.
TEST(GgufTensors, HaveAsManyBytesAsTheFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("heed_gguf_bytes_" + std::to_string(getpid()))).string();
  GgufBytes bytes;
  for (const GgufType& type : kGgufTypes)
    bytes.tensor(type.name, {2 * type.elements, 3}, type.id, std::string(6 * type.bytes, '\0'));
  bytes.write(path);
  const GgufFile file(path);
  for (const GgufTensor& tensor : file.tensors()) {
    const Tensor t = gguf_tensor(file, tensor);
    EXPECT_EQ(t.nbytes(), 6 * static_cast<int64_t>(tensor.type->bytes)) << tensor.name;
    EXPECT_EQ(block_of(t.dtype()), tensor.type->elements) << tensor.name;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace heed
