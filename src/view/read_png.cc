// Reads a PNG, without cairo: looks at its size, and hands the file to libheed_pictures.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "heed/file_kind.h"
#include "heed/view.h"
#include "view/pictures_library.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 26;  // bytes; cairo keeps them, too
constexpr uint32_t kLongestSide = 32767;              // cairo's limit

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// What stands in the first chunk, and decides how much memory it takes.
void check_size(std::FILE* file, const std::string& path) {
  constexpr std::array<unsigned char, 16> kBeginning = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                                        0,    0,   0,   13,  'I',  'H',  'D',  'R'};
  std::array<unsigned char, 24> header{};
  const size_t read = std::fread(header.data(), 1, header.size(), file);
  if (std::ferror(file)) throw IoError("read " + path + ": " + std::strerror(errno));
  if (read < header.size() || !std::equal(kBeginning.begin(), kBeginning.end(), header.begin()))
    throw FormatError(path + ": it is no PNG; convert the picture to one, or give an npy file");
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | header[i];
    return value;
  };
  const uint32_t width = number(16), height = number(20);
  if (width < 1 || height < 1 || width > kLongestSide || height > kLongestSide ||
      uint64_t{width} * height > kMostPixels)
    throw FormatError(path + ": a picture of " + std::to_string(width) + " x " + std::to_string(height) +
                      " pixels; sides must be in 1.." + std::to_string(kLongestSide) + ", and at most " +
                      std::to_string(kMostPixels) + " pixels are read: make it smaller");
  std::rewind(file);
}

}  // namespace

Tensor read_png(const std::string& path) {
  expect_regular_file(path, kLargestFile);
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw IoError("read " + path + ": " + std::strerror(errno));
  check_size(file.get(), path);
  static const auto read = reinterpret_cast<ReadPngFunction>(pictures_symbol("read_png", kReadPngSymbol));
  Pixels pixels;
  std::string failure;
  const bool whole = read(file.get(), &pixels, &failure);
  if (!whole && failure.empty()) throw MemoryError(path + ": there is too little memory for the picture");
  if (!whole) throw FormatError(path + ": the PNG cannot be read: " + failure);
  const Tensor result = Tensor::empty({pixels.height, pixels.width, 3}, DType::u8);
  std::copy(pixels.rgb.begin(), pixels.rgb.end(), result.data<uint8_t>());
  return result;
}

}  // namespace heed::inline v0
