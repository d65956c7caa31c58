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
  std::string floats, halves, brains, blocks;
  for (int i = 0; i < 6; ++i) {
    floats += GgufBytes::bytes_of(0.1f * static_cast<float>(i));
    halves += half(0.5f * static_cast<float>(i));
    brains += GgufBytes::bytes_of(to_bfloat16(static_cast<float>(i)).bits);
  }
  const int64_t rows = 1000;  // several tasks
  for (int64_t row = 0; row < rows; ++row) blocks += half(0.5f) + std::string(32, static_cast<char>(row % 100));
  GgufBytes()
      .tensor("f32", {3, 2}, 0, floats)
      .tensor("f16", {3, 2}, 1, halves)
      .tensor("bf16", {6}, 30, brains)
      .tensor("q8_0", {32, rows}, 8, blocks)
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
  EXPECT_EQ(q8.dtype(), DType::f16);
  EXPECT_EQ(q8.shape(), (Dims{rows, 32}));
  for (int64_t row = 0; row < rows; ++row)
    EXPECT_EQ(to_float(q8.at<float16>(row, 31)), 0.5f * static_cast<float>(row % 100));
  EXPECT_EQ(gguf_tensor(file, *file.tensor("none")).numel(), 0);
  EXPECT_THROW(gguf_tensor(file, *file.tensor("odd")), FormatError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace heed
