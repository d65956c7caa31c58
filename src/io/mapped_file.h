// The bytes of an input file.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "heed/error.h"

namespace heed::inline v0 {

/// Throws IoError "DOING PATH: what the system says about `error`".
[[noreturn]] void throw_errno(const std::string& doing, const std::string& path, int error);

struct FileBytes {
  std::shared_ptr<void> owner;  // data lives as long as it
  std::byte* data = nullptr;
  size_t size = 0;
};

/// Maps a regular file, privately writable (pages are copied when written to); reads a pipe into memory.
FileBytes map_file(const std::string& path);

}  // namespace heed::inline v0
