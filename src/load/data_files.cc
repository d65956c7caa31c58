#include "heed/corpus.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <streambuf>
#include <utility>

#include "heed/io.h"
#include "heed/token_file.h"
#include "io/file_system.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (files.empty()) throw IoError("read " + pattern + ": no file fits this pattern");
  std::sort(files.begin(), files.end());  // glob sorts by locale
  return files;
}

ReadBytes bytes_of_file(const std::string& file) {
  if (is_token_file(file))
    throw FormatError(file + ": tokens that heed prepare made; they go into heed train --pairs or --text, alone");
  const auto fd = std::make_shared<Descriptor>(file, O_RDONLY);
  if (!fd->ok()) throw_errno("open", file, errno);
  return [fd, file](std::span<char> into) {
    while (true) {
      const ssize_t got = ::read(fd->get(), into.data(), into.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw_errno("read", file, errno);
    }
  };
}

size_t read_standard_input(std::span<char> into) {
  std::cin.read(into.data(), std::ssize(into));
  if (std::cin.bad()) throw IoError("read standard input: failed");
  return static_cast<size_t>(std::cin.gcount());
}

// Bytes of a file, unpacked if gzip compressed it.
ReadBytes bytes_of(const std::string& file) {
  ReadBytes bytes = file == "-" ? ReadBytes(read_standard_input) : bytes_of_file(file);
  std::string begin(2, '\0');
  size_t there = 0;
  while (there < begin.size()) {
    const size_t got = bytes(std::span(begin).subspan(there));
    if (got == 0) break;
    there += got;
  }
  begin.resize(there);
  const bool packed = is_gzip(begin);
  if (!packed && file.ends_with(".gz")) throw FormatError(file + ": this is not gzip; compress it again, or rename it");
  ReadBytes whole = [begin, bytes = std::move(bytes)](std::span<char> into) mutable {
    if (begin.empty()) return bytes(into);
    const size_t count = begin.copy(into.data(), into.size());
    begin.erase(0, count);
    return count;
  };
  return packed ? gunzip(std::move(whole), name_of_data(file)) : whole;
}

class DataBuffer final : public std::streambuf {
 public:
  explicit DataBuffer(ReadBytes bytes) : bytes_(std::move(bytes)) {}

 private:
  int_type underflow() override {
    const size_t got = bytes_(buffer_);
    setg(buffer_.data(), buffer_.data(), buffer_.data() + got);
    return got == 0 ? traits_type::eof() : traits_type::to_int_type(buffer_[0]);
  }

  ReadBytes bytes_;
  std::array<char, 1 << 16> buffer_;
};

class DataStream final : public std::istream {
 public:
  explicit DataStream(ReadBytes bytes) : std::istream(nullptr), buffer_(std::move(bytes)) {
    rdbuf(&buffer_);
    exceptions(std::ios::badbit);  // passes on exceptions of the buffer
  }

 private:
  DataBuffer buffer_;
};

}  // namespace

std::vector<std::string> files_of(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.find_first_of("*?[") == std::string::npos || fs::exists(name, ignored)) {
      files.push_back(name);
    } else {
      const std::vector<std::string> more = matches(name);
      files.insert(files.end(), more.begin(), more.end());
    }
  }
  return files;
}

std::unique_ptr<std::istream> open_data(const std::string& file) {
  return std::make_unique<DataStream>(bytes_of(file));
}

std::string name_of_data(const std::string& file) { return file == "-" ? "standard input" : file; }

}  // namespace heed::inline v0
