// A config.json that anybody wrote beside a file of one tensor: it is refused in little memory.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "heed/io.h"
#include "heed/pretrained.h"

namespace {

// Gone at the end, but for what a crash leaves.
class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heed-fuzz-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) std::abort();
    path_ = pattern;
    heed::save_safetensors((path_ / "model.safetensors").string(), {{"wte.weight", heed::Tensor::zeros({4, 8})}});
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directory directory;
  std::ofstream(directory.path() / "config.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    heed::load_pretrained(directory.path().string());
  } catch (const heed::Error&) {
  }
  return 0;
}
