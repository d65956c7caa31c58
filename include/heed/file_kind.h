// Detects the kind of a file before it is opened or trusted. Header only: heed::text, which links no other library of
// heed, needs it, too.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "heed/error.h"

namespace heed::inline v0 {

/// Throws IoError where `path` is a pipe, a socket or a device, which could block or never end, and FormatError where
/// the file has more than `limit` bytes. Other faults are reported when it is opened.
inline void expect_regular_file(const std::string& path, uint64_t limit) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return;
  if (!S_ISREG(status.st_mode))
    throw IoError("read " + path + ": it is " + (S_ISFIFO(status.st_mode) ? "a pipe" : "a device or a socket") +
                  "; this has to be a regular file");
  if (static_cast<uint64_t>(status.st_size) > limit)
    throw FormatError(path + ": " + std::to_string(status.st_size) + " bytes; at most " + std::to_string(limit) +
                      " are read here (is this the right file?)");
}

/// Names the known format of another program's file ("a GGUF file") from its beginning; empty if unknown.
inline std::string_view foreign_format(std::string_view bytes) {
  static constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"GGUF", "a GGUF file"},
      {"PK\x03\x04", "a zip archive (PyTorch's .pt and .bin are such, and .npz)"},
      {"\x80\x02", "a pickle of Python (older PyTorch's .pt and .bin are such)"},
      {"\x80\x03", "a pickle of Python"},
      {"\x80\x04", "a pickle of Python"},
      {"\x80\x05", "a pickle of Python"},
      {"\x89HDF\r\n", "an HDF5 file"},
      {"\x93NUMPY", "an npy file"},
      {"\x1f\x8b", "compressed by gzip"},
      {"\x28\xb5\x2f\xfd", "compressed by zstd"},
      {"heed tokens", "tokens that heed prepare made, for heed train"},
      {"version https://git-lfs", "a pointer of Git LFS: fetch the file itself with git lfs pull"},
  };
  for (const auto& [beginning, name] : kBeginnings)
    if (bytes.starts_with(beginning)) return name;
  // JSON behind 8 bytes of its length; the length would be read as text here.
  if (bytes.size() > 9 && bytes[8] == '{' && bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4))
    return "a safetensors file";
  return {};
}

}  // namespace heed::inline v0
