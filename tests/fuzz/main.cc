// libFuzzer's entry points: fuzz FORMAT [libFuzzer's options] FOUND EXAMPLES, where EXAMPLES gets the format's own.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>

#include "fuzz/fuzz.h"
#include "fuzz/json_mutator.h"
#include "heed/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);  // libFuzzer's own

namespace heed::fuzz {
namespace {

const Format* format = nullptr;

const Format* format_named(std::string_view name) {
  for (const auto formats :
       {tokenizer_formats(), model_formats(), array_formats(), directory_formats(), program_formats()})
    for (const Format& one : formats)
      if (name == one.name) return &one;
  return nullptr;
}

}  // namespace

Directory::Directory() {
  const std::string root =
      ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  path_ = root + "/heed-fuzz-XXXXXX";
  expect(::mkdtemp(path_.data()) != nullptr, "a directory can be made in " + root);
}

void Directory::write(const std::string& name, const std::string& bytes) const {
  std::filesystem::remove(at(name));
  std::ofstream(at(name), std::ios::binary) << bytes;
}

}  // namespace heed::fuzz

using namespace heed::fuzz;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  expect(*argc > 2, "fuzz FORMAT ... EXAMPLES");
  format = format_named((*argv)[1]);
  expect(format != nullptr, std::string("there is no format ") + (*argv)[1]);
  std::rotate(*argv + 1, *argv + 2, *argv + *argc);
  --*argc;
  const std::filesystem::path to = (*argv)[*argc - 1];
  if (!std::filesystem::is_directory(to)) return 0;  // a single file that was found
  size_t number = 0;
  for (const std::string& example : format->examples())
    std::ofstream(to / ("own-" + std::to_string(number++)), std::ios::binary) << example;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    format->run({reinterpret_cast<const char*>(data), size});
  } catch (const heed::Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (format->json) {
    const std::string mutated = mutate_json({reinterpret_cast<const char*>(data), size}, max_size, seed);
    if (!mutated.empty()) return mutated.copy(reinterpret_cast<char*>(data), max_size);
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
