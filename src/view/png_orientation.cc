// Reads the chunks of a PNG that can hold an orientation. libpng skips them: it limits the number of texts and the size
// of each, and so not the memory that a file decides.
#include "view/png_orientation.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

constexpr size_t kMostText = size_t{1} << 20;  // bytes of a text that is stored compressed, as in Pillow
constexpr int kUpright = 1;
constexpr uint32_t kOrientationTag = 0x112;

uint32_t number(std::string_view bytes, bool little_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[little_endian ? bytes.size() - 1 - i : i]);
  return value;
}

/// The tag of a TIFF's first directory, which is what EXIF data are (TIFF 6.0, section 2).
std::optional<int> exif_orientation(std::string_view exif) {
  constexpr std::string_view kJpegPrefix{"Exif\0\0", 6};
  while (exif.starts_with(kJpegPrefix)) exif.remove_prefix(kJpegPrefix.size());
  const bool little_endian = exif.starts_with(std::string_view("II*\0", 4));
  if (!little_endian && !exif.starts_with(std::string_view("MM\0*", 4))) return {};
  const auto at = [&](size_t place, size_t bytes) { return number(exif.substr(place, bytes), little_endian); };
  if (exif.size() < 8) return {};
  const size_t directory = at(4, 4);
  if (directory > exif.size() || exif.size() - directory < 2) return {};
  constexpr size_t kEntry = 12;  // bytes: tag, type, count, value
  std::optional<int> result;
  const size_t entries = at(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (entry + kEntry > exif.size()) break;
    const uint32_t type = at(entry + 2, 2), count = at(entry + 4, 4);
    const size_t bytes = type == 3 ? 2 : type == 4 ? 4 : 0;  // SHORT, LONG
    if (at(entry, 2) == kOrientationTag && bytes != 0 && count == 1)
      result = static_cast<int>(std::min<uint32_t>(at(entry + 8, bytes), 9));  // 9 and more have no meaning
  }
  return result;
}

/// ImageMagick's form of EXIF data: three lines that describe them, then hexadecimal digits in lines.
std::optional<int> raw_profile_orientation(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits, bytes;
  for (const char c : text) {
    if (c == '\n' || c == ' ' || c == '\r' || c == '\t') continue;
    const size_t value = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
    if (value == std::string_view::npos) return {};
    digits.push_back(static_cast<char>(value));
  }
  for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes.push_back(static_cast<char>(digits[i] << 4 | digits[i + 1]));
  return exif_orientation(bytes);
}

/// An attribute or an element tiff:Orientation.
std::optional<int> xmp_orientation(std::string_view text) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view value = text.substr(at + kName.size());
    if (value.starts_with("=\""))
      value.remove_prefix(2);
    else if (value.starts_with('>'))
      value.remove_prefix(1);
    else
      continue;
    if (!value.empty() && value[0] >= '0' && value[0] <= '9') return value[0] - '0';
  }
  return {};
}

/// Up to the next zero byte, which is taken off `bytes` too.
std::optional<std::string_view> take_name(std::string_view& bytes) {
  const size_t end = bytes.find('\0');
  if (end == std::string_view::npos) return {};
  const std::string_view name = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return name;
}

std::optional<std::string> inflated(std::string_view bytes, const std::string& path) {
  std::string text(kMostText, '\0');
  uLongf size = text.size();
  const int status = uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (status == Z_MEM_ERROR) throw MemoryError(path + ": there is too little memory for the picture");
  if (status == Z_BUF_ERROR)
    throw FormatError(path + ": a compressed text chunk is truncated or larger than " + std::to_string(kMostText) +
                      " bytes; remove the picture's metadata");
  if (status != Z_OK) return {};
  text.resize(size);
  return text;
}

/// Orientations by where they are found.
struct Found {
  bool has_exif = false;  // then the raw profile does not count
  std::optional<int> exif, raw_profile, xmp;
};

/// A chunk tEXt, zTXt or iTXt (PNG 3rd edition, section 11.3.3).
void read_text(std::string_view type, std::string_view bytes, const std::string& path, Found& found) {
  const std::optional<std::string_view> keyword = take_name(bytes);
  if (!keyword) return;
  const bool raw_profile = *keyword == "Raw profile type exif";
  if (!raw_profile && *keyword != "XML:com.adobe.xmp") return;
  bool packed = type == "zTXt";
  if (packed) {
    if (bytes.empty() || bytes[0] != 0) return;  // the method deflate
    bytes.remove_prefix(1);
  } else if (type == "iTXt") {
    if (bytes.size() < 2 || bytes[1] != 0) return;
    packed = bytes[0] != 0;
    bytes.remove_prefix(2);
    if (!take_name(bytes) || !take_name(bytes)) return;  // the language, the translated keyword
  }
  std::optional<std::string> unpacked;
  if (packed) {
    unpacked = inflated(bytes, path);
    if (!unpacked) return;
    bytes = *unpacked;
  }
  if (raw_profile)
    found.raw_profile = raw_profile_orientation(bytes);
  else
    found.xmp = xmp_orientation(bytes);
}

}  // namespace

int png_orientation(std::FILE* file, const std::string& path) {
  constexpr long kSignature = 8, kChecksum = 4;
  const auto check = [&](bool fine) {
    if (!fine) throw IoError("read " + path + ": " + std::strerror(errno));
  };
  check(std::fseek(file, 0, SEEK_END) == 0);
  const long size = std::ftell(file);
  Found found;
  std::string bytes;
  std::array<char, 8> head{};
  long next = kSignature;
  while (next + static_cast<long>(head.size()) <= size) {  // libpng finds what is cut off
    check(std::fseek(file, next, SEEK_SET) == 0 && std::fread(head.data(), 1, head.size(), file) == head.size());
    const uint32_t length = number({head.data(), 4}, false);
    const std::string_view type(head.data() + 4, 4);
    const long begin = next + static_cast<long>(head.size());
    next = begin + static_cast<long>(length) + kChecksum;
    if (type == "IEND" || next > size) break;
    if (type != "eXIf" && type != "tEXt" && type != "zTXt" && type != "iTXt") continue;
    bytes.resize(length);
    check(std::fread(bytes.data(), 1, length, file) == length);
    if (type == "eXIf") {
      found.has_exif = true;
      found.exif = exif_orientation(bytes);
    } else {
      read_text(type, bytes, path, found);
    }
  }
  const std::optional<int> exif = found.has_exif ? found.exif : found.raw_profile;
  const int value = exif.value_or(found.xmp.value_or(kUpright));
  return value >= 1 && value <= 8 ? value : kUpright;
}

}  // namespace heed::inline v0
