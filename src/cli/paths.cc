#include "cli/paths.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include "heed/load.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string find_model(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("HEED_MODEL"); named && *named) return named;
  std::error_code error;
  std::string looked;
  fs::path directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; up <= 4 && !directory.empty(); ++up) {
    for (const char* place : {"models/spa-eng", "share/heed/models/spa-eng", "heed_spa_eng"}) {
      const fs::path candidate = directory / place;
      if (fs::exists(candidate / kConfigFile, error)) return candidate.string();
      looked += (looked.empty() ? "" : ", ") + candidate.string();
    }
    if (directory == directory.parent_path()) break;
    directory = directory.parent_path();
  }
  throw IoError("no model: give --model DIR or set HEED_MODEL (the bundled one is not in " + looked + ")");
}

bool same_file(const std::string& path, const std::string& other) {
  const auto place = [](const std::string& p) {
    std::error_code unknown;
    fs::path at = fs::absolute(p);
    // weakly_canonical() leaves a link to what is not there yet as it is.
    for (int links = 0; links < 40 && fs::is_symlink(at, unknown) && !fs::exists(at, unknown); ++links)
      at = at.parent_path() / fs::read_symlink(at, unknown);
    const fs::path whole = fs::weakly_canonical(at, unknown);
    const fs::path plain = unknown ? at.lexically_normal() : whole;
    return plain.has_filename() ? plain : plain.parent_path();
  };
  std::error_code not_there;
  return fs::equivalent(path, other, not_there) || place(path) == place(other);
}

void expect_other_file(const char* option, const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (output.empty() || (fs::exists(status) && !fs::is_regular_file(status))) return;
  for (const std::string& input : inputs)
    if (!input.empty() && same_file(output, input))
      throw UsageError(std::string(option) + " " + output + " is what the command reads; give another file");
}

std::vector<std::string> model_paths(const std::string& model) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return {model};
  std::set<std::string> paths;
  for (const std::string& name : kModelFiles) paths.insert(model + "/" + name);
  if (!fs::exists(model + "/" + kVocabularyFile, error))  // another maker's
    for (fs::directory_iterator it(model, error), end; !error && it != end; it.increment(error))
      for (const char* ending : {".json", ".txt", ".safetensors", ".model", ".spm"})
        if (it->is_regular_file(error) && it->path().string().ends_with(ending)) paths.insert(it->path().string());
  return {paths.begin(), paths.end()};
}

}  // namespace heed::cli
