// Reads a PNG by libpng alone: pictures to look at need no library that draws.
#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "heed/file_kind.h"
#include "heed/view.h"
#include "view/png_orientation.h"

namespace heed::inline v0 {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 26;  // bytes
constexpr uint32_t kLongestSide = 32767;              // cairo's limit, which draws it

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct Size {
  uint32_t width, height;
};

constexpr unsigned kGrey = 0;   // a colour type
constexpr int64_t kColors = 3;  // red, green, blue

// Numbers of a pixel, by colour type; 0 for a type that does not exist.
constexpr std::array<unsigned, 7> kChannels = {1, 0, 3, 1, 2, 0, 4};

// Reads the first chunk, which decides how much memory the picture takes.
Size read_size(std::FILE* file, uint64_t bytes, const std::string& path) {
  constexpr std::array<unsigned char, 16> kBeginning = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                                        0,    0,   0,   13,  'I',  'H',  'D',  'R'};
  std::array<unsigned char, 26> header{};
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
  // Deflate cannot pack better than 1032 to 1, so a file of a few bytes holds no large picture.
  const unsigned bits = header[24], channels = header[25] < kChannels.size() ? kChannels[header[25]] : 0;
  if (uint64_t{width} * height * bits * channels / 8 / 1032 > bytes)
    throw FormatError(path + ": a picture of " + std::to_string(width) + " x " + std::to_string(height) +
                      " pixels does not fit a file of " + std::to_string(bytes) + " bytes; it is cut off or damaged");
  if (bits == 16 && header[25] == kGrey)
    throw FormatError(path +
                      ": it has 16-bit grey values, which Pillow clips to 255 and other programs divide by 256; "
                      "convert the picture to 8 bits");
  return {width, height};
}

// The failure that libpng's callbacks report.
struct Failure {
  std::array<char, 200> text{};
  bool memory = false;
};

void* allocate(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (!memory) static_cast<Failure*>(png_get_mem_ptr(png))->memory = true;
  return memory;
}

void release(png_structp, void* memory) { std::free(memory); }

[[noreturn]] void give_up(png_structp png, const char* reason) {
  std::snprintf(static_cast<Failure*>(png_get_error_ptr(png))->text.data(), sizeof(Failure::text), "%s", reason);
  png_longjmp(png, 1);
}

void ignore(png_structp, const char*) {}

class Reader {
 public:
  explicit Reader(std::FILE* file)
      : png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &failure_, give_up, ignore, &failure_, allocate, release)),
        info_(png_ ? png_create_info_struct(png_) : nullptr) {
    if (!info_) failure_.memory = true;
    if (png_) png_init_io(png_, file);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Rows of `width` pixels, each red, green and blue. False: see failure(). libpng leaves by longjmp, so nothing here
  /// may need a destructor.
  bool read(uint8_t* to, uint32_t width, uint32_t height) {
    if (!info_ || setjmp(png_jmpbuf(png_))) return false;  // NOLINT(cert-err52-cpp): the library's way
    png_set_user_limits(png_, kLongestSide, kLongestSide);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts and profiles, however long
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != kColors * width) png_error(png_, "its pixels are of no known kind");
    for (int pass = 0; pass < passes; ++pass)
      for (uint32_t y = 0; y < height; ++y) png_read_row(png_, to + kColors * width * y, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
  png_structp png_;
  png_infop info_;
};

/// The upright form of a picture whose first row and column are where `orientation` says (EXIF 2.32, tag 274): 2 to 4
/// mirror and turn by 180 degrees, 5 to 8 exchange rows and columns.
Tensor turned(const Tensor& picture, int orientation) {
  const int64_t height = picture.size(0), width = picture.size(1);
  const bool exchanged = orientation >= 5;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  Tensor result = Tensor::empty({exchanged ? width : height, exchanged ? height : width, kColors}, DType::u8);
  const auto* from = picture.data<uint8_t>();
  auto* to = result.data<uint8_t>();
  for (int64_t y = 0; y < result.size(0); ++y)
    for (int64_t x = 0; x < result.size(1); ++x) {
      const int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      const int64_t pixel = (from_below ? height - 1 - row : row) * width + (from_right ? width - 1 - column : column);
      to = std::copy_n(from + pixel * kColors, kColors, to);
    }
  return result;
}

}  // namespace

Tensor read_png(const std::string& path) {
  expect_regular_file(path, kLargestFile);
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw IoError("read " + path + ": " + std::strerror(errno));
  struct stat status {};
  if (::fstat(::fileno(file.get()), &status) != 0) throw IoError("read " + path + ": " + std::strerror(errno));
  const auto [width, height] = read_size(file.get(), static_cast<uint64_t>(status.st_size), path);
  const int orientation = png_orientation(file.get(), path);
  std::rewind(file.get());
  Tensor picture = Tensor::empty({height, width, kColors}, DType::u8);
  Reader reader(file.get());
  if (!reader.read(picture.data<uint8_t>(), width, height)) {
    if (reader.failure().memory) throw MemoryError(path + ": there is too little memory for the picture");
    throw FormatError(path + ": the PNG cannot be read: " + reader.failure().text.data());
  }
  return orientation == 1 ? picture : turned(picture, orientation);
}

}  // namespace heed::inline v0
