#include "text/read_whole_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "heed/error.h"
#include "heed/file_kind.h"

namespace heed::inline v0 {

std::string read_whole_file(const std::filesystem::path& path, uint64_t limit) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw IoError("read " + path.string() + ": it is a directory");
  expect_regular_file(path.string(), limit);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  if (in && in.peek() != std::ifstream::traits_type::eof()) bytes << in.rdbuf();
  if (!in.is_open() || in.bad()) throw IoError("read " + path.string() + ": " + std::strerror(errno));
  return std::move(bytes).str();
}

}  // namespace heed::inline v0
