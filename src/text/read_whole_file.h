#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace heed::inline v0 {

/// The content of a regular file. Throws IoError, and FormatError for more than `limit` bytes.
std::string read_whole_file(const std::filesystem::path& path, uint64_t limit);

}  // namespace heed::inline v0
