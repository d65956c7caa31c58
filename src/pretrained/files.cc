#include "pretrained/files.h"

#include <algorithm>
#include <set>
#include <span>

#include "heed/model_files.h"
#include "io/json.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr uint64_t kLargestIndex = uint64_t{64} << 20;

// The files that an index names, sorted. As in transformers, the tensors come from the files themselves, not from the
// index's list.
std::set<std::string> read_index(const std::string& text, const std::string& where) {
  const nlohmann::json index = parse_json(text, where);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw FormatError(where + ": there is no \"weight_map\", which says the file of each tensor");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      throw FormatError(where + ": tensor " + in_quotes(tensor) + " is in " + in_quotes(file.dump()) +
                        "; it must be the name of a file in the same directory");
    files.insert(name);
  }
  return files;
}

constexpr const char* kUnread[] = {".bin", ".pt", ".h5", ".msgpack"};
constexpr const char* kRead[] = {".safetensors", ".json", ".txt", ".model", ".spm", ".md", ".jinja"};

bool ends_with_one(const std::string& name, std::span<const char* const> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

std::string missing(const DirectorySnapshot& files) {
  for (const std::string& name : files.names())
    if (ends_with_one(name, kUnread))
      return files.where() + ": its weights are in " + name +
             ", which can hold programs; save them as model.safetensors (in Python: "
             "model.save_pretrained(directory))";
  return files.where() + ": there is no " + kModelFile;
}

}  // namespace

DirectorySnapshot files_of_model(const std::string& directory) {
  std::vector<std::string> names = list_files(directory);
  std::erase_if(names,
                [](const std::string& name) { return !ends_with_one(name, kRead) && !ends_with_one(name, kUnread); });
  return {directory, names};
}

TensorFiles::TensorFiles(const DirectorySnapshot& files) : where_(files.where()) {
  if (files.contains(kModelFile)) {
    add(files.safetensors(kModelFile));
    return;
  }
  if (!files.contains(kIndexFile)) throw FormatError(missing(files));
  const std::string where = files.path(kIndexFile);
  for (const std::string& name : read_index(files.read(kIndexFile, kLargestIndex), where)) {
    if (!files.contains(name)) throw FormatError(where + ": it names " + name + ", which is not there");
    add(files.safetensors(name));
  }
}

void TensorFiles::add(SafetensorsFile file) {
  for (const TensorInfo& info : file.tensors()) {
    // A later file replaces an earlier one.
    const auto [at, is_new] = place_.insert_or_assign(info.name, files_.size());
    if (is_new) names_.push_back(info.name);
  }
  files_.push_back(std::move(file));
}

std::optional<std::string> TensorFiles::first_non_finite() const {
  try {
    for (const SafetensorsFile& file : files_)
      if (auto found = SafetensorsFile(file.path()).first_non_finite()) return found;
  } catch (const Error&) {  // it has gone, or was in memory
  }
  return std::nullopt;
}

}  // namespace heed::inline v0
