#include "cli/paths.h"

#include <cstdlib>
#include <filesystem>

#include "cli/console.h"
#include "heed/load.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char *kStandardInput = "/dev/stdin", *kStandardOutput = "/dev/stdout";

}  // namespace

std::string model_of_environment() {
  const char* const named = std::getenv("HEED_MODEL");
  std::error_code error;
  if (!named || !*named || fs::exists(named, error)) return named ? named : "";
  throw IoError("HEED_MODEL is " + std::string(named) +
                ", which does not exist; set it to the directory of a model, unset it, or give --model DIR");
}

std::string find_model(const std::string& given) {
  if (!given.empty()) return given;
  if (std::string named = model_of_environment(); !named.empty()) return named;
  std::error_code error;
  fs::path directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; up <= 4 && !directory.empty(); ++up) {
    for (const char* place : {"models/spa-eng", "share/heed/models/spa-eng", "heed_spa_eng"}) {
      const fs::path candidate = directory / place;
      if (fs::exists(candidate / kConfigFile, error)) return candidate.string();
      detail("the bundled model is not " + candidate.string());
    }
    if (directory == directory.parent_path()) break;
    directory = directory.parent_path();
  }
  throw IoError(
      "no model: give --model DIR, set HEED_MODEL, or install the bundled model, with pip by pip install "
      "./python/model in a checkout (--verbose lists where heed looked)");
}

void expect_other_output(const std::string& output, const std::vector<std::string>& inputs) {
  if (!is_standard_stream(output)) return expect_other_file("--output", output, inputs);
  std::error_code error;
  // An empty one has nothing to be read, and a reading without end is not possible.
  if (!fs::is_regular_file(kStandardOutput, error) || fs::file_size(kStandardOutput, error) == 0) return;
  for (const std::string& input : inputs)
    if (!input.empty() && fs::equivalent(kStandardOutput, input == "-" ? kStandardInput : input, error))
      throw UsageError("standard output is " + (input == "-" ? "standard input" : input) +
                       ", which the command reads; write to another file");
}

}  // namespace heed::cli
