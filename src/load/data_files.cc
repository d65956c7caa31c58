#include "heed/corpus.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <new>

#include "heed/io.h"

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
  std::sort(files.begin(), files.end());  // glob would follow the locale
  return files;
}

std::string read_standard_input() {
  std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) throw IoError("read standard input: failed");
  return bytes;
}

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

std::string read_data(const std::string& file) {
  std::string bytes = file == "-" ? read_standard_input() : read_file(file);
  if (is_gzip(bytes)) return gunzip(bytes, name_of_data(file));
  if (file.ends_with(".gz")) throw FormatError(file + ": this is not gzip; compress it anew, or rename it");
  return bytes;
}

std::string name_of_data(const std::string& file) { return file == "-" ? "standard input" : file; }

}  // namespace heed::inline v0
