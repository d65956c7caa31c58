// Formats that heed reads, each with what heed does with bytes that anybody wrote, and with examples to begin with.
// tests/fuzz/main.cc gives them to libFuzzer.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed::fuzz {

struct Format {
  const char* name;
  /// May throw heed::Error, which is how bytes are refused. Aborts where a promise is broken.
  void (*run)(const std::string& bytes);
  std::vector<std::string> (*examples)();
  bool json = false;  // mutations keep the bytes JSON: json_mutator.h
};

std::span<const Format> tokenizer_formats();  // tokenizers.cc
std::span<const Format> model_formats();      // models.cc
std::span<const Format> array_formats();      // arrays.cc
std::span<const Format> directory_formats();  // directories.cc
std::span<const Format> program_formats();    // program.cc

/// For what no input may bring about.
inline void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "fuzz: not kept: " << what << '\n';
  std::abort();
}

/// In memory where there is such a file system. Removed at the end, but for what a crash leaves.
class Directory {
 public:
  Directory();
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  /// A new file each time: one that is mapped must not be shortened.
  void write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

}  // namespace heed::fuzz
