#include "heed/paths.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "heed/adapters.h"
#include "heed/load.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;

// Files can be made in `directory`, which is there; `given` is the option with its value.
void expect_files_can_be_made(const std::string& given, const fs::path& directory) {
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    throw IoError(given + ": no files can be made in " + directory.string() + ": " + std::strerror(errno) +
                  "; check the permissions of the directory, or name another place");
}

}  // namespace

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

void expect_other_file(const std::string& option, const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (output.empty() || (fs::exists(status) && !fs::is_regular_file(status))) return;
  for (const std::string& input : inputs)
    if (!input.empty() && same_file(output, input == "-" ? "/dev/stdin" : input))
      throw UsageError(option + " " + output + " is what the command reads; give another file");
  if (fs::is_symlink(output, error)) return;  // the file that it leads to may be elsewhere
  const std::string given = option + " " + output;
  fs::path directory = fs::path(output).parent_path();
  if (directory.empty()) directory = ".";
  if (!fs::is_directory(directory, error))
    throw IoError(given + ": there is no directory " + directory.string() + "; make it, or name another file");
  expect_files_can_be_made(given, directory);
}

void expect_ending(const std::string& option, const std::string& output, const std::string& ending) {
  static const std::set<std::string> known = {".png", ".svg", ".pdf",         ".html", ".json",
                                              ".npy", ".npz", ".safetensors", ".gguf"};
  const std::string has = fs::path(output).extension().string();
  if (has == ending || !known.contains(has)) return;
  throw UsageError(option + " " + output + ": the name ends in " + has + ", and what is written is " +
                   ending.substr(1) + "; name a file that ends in " + ending);
}

void expect_writable_directory(const std::string& option, const std::string& directory) {
  const std::string given = option + " " + directory;
  std::error_code error;
  fs::path at = fs::absolute(directory).lexically_normal();
  while (!fs::exists(at, error) && at.has_parent_path() && at != at.parent_path()) at = at.parent_path();
  if (!fs::is_directory(at, error)) throw IoError(given + ": " + at.string() + " is not a directory; name another");
  expect_files_can_be_made(given, at);
}

void expect_other_files(const std::vector<std::pair<std::string, std::string>>& outputs,
                        const std::vector<std::string>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    if (path.empty()) continue;
    expect_other_file(option, path, inputs);
    for (size_t j = 0; j < i; ++j)
      if (!outputs[j].second.empty() && same_file(path, outputs[j].second))
        throw UsageError(path + " is named twice; give each file another name");
  }
}

std::vector<std::string> model_paths(const std::string& model, const std::string& base) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return {model};
  std::set<std::string> paths;
  for (const std::string& name : kModelFiles) paths.insert(model + "/" + name);
  if (fs::exists(model + "/" + kVocabularyFile, error)) return {paths.begin(), paths.end()};
  // A third-party model. The modules of sentence-transformers have directories of their own.
  const auto take = [&](const fs::path& path) {
    for (const char* ending : {".json", ".txt", ".safetensors", ".model", ".spm", ".jinja"})
      if (path.string().ends_with(ending)) paths.insert(path.string());
  };
  for (fs::recursive_directory_iterator it(model, error), end; !error && it != end; it.increment(error)) {
    if (it.depth() > 0) it.disable_recursion_pending();
    if (it->is_regular_file(error)) take(it->path());
  }
  try {
    if (const std::string adapted = adapted_base(model, base); !adapted.empty() && !same_file(adapted, model))
      for (std::string& path : model_paths(adapted)) paths.insert(std::move(path));
  } catch (const Error&) {  // which loading reports
  }
  return {paths.begin(), paths.end()};
}

}  // namespace heed::inline v0
