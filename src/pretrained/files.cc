#include "pretrained/files.h"

#include <algorithm>
#include <set>

#include "heed/model_files.h"
#include "io/json.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr uint64_t kLargestIndex = uint64_t{64} << 20;

// The file of each tensor.
std::map<std::string, std::string> read_index(const std::string& text, const std::string& where) {
  const nlohmann::json index = parse_json(text, where);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw FormatError(where + ": there is no \"weight_map\", which says the file of each tensor");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      throw FormatError(where + ": tensor " + in_quotes(tensor) + " is in " + in_quotes(file.dump()) +
                        "; it must be the name of a file in the same directory");
    files[tensor] = name;
  }
  return files;
}

std::string missing(const std::string& directory) {
  for (const std::string& file : list_files(directory))
    if (file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".h5") || file.ends_with(".msgpack"))
      return directory + ": its weights are in " + file +
             ", which can hold programs; save them as model.safetensors (in Python: "
             "model.save_pretrained(directory))";
  return directory + ": there is no " + kModelFile;
}

}  // namespace

TensorFiles::TensorFiles(const std::string& directory) : where_(directory) {
  const DirectorySnapshot files(directory, {kModelFile, kIndexFile});
  if (files.contains(kModelFile)) {
    add(files.safetensors(kModelFile));
    return;
  }
  if (!files.contains(kIndexFile)) throw FormatError(missing(directory));
  const std::string where = directory + "/" + kIndexFile;
  const std::map<std::string, std::string> index = read_index(files.read(kIndexFile, kLargestIndex), where);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  const DirectorySnapshot parts(directory, {names.begin(), names.end()});
  for (const std::string& name : names) {
    if (!parts.contains(name)) throw FormatError(where + ": it names " + name + ", which is not there");
    add(parts.safetensors(name));
  }
  for (const auto& [tensor, file] : index)
    if (!place_.contains(tensor) || files_[place_.at(tensor)].path() != directory + "/" + file)
      throw FormatError(where + ": tensor " + in_quotes(tensor) + " is not in " + file);
}

void TensorFiles::add(SafetensorsFile file) {
  for (const TensorInfo& info : file.tensors()) {
    if (!place_.emplace(info.name, files_.size()).second)
      throw FormatError(file.path() + ": tensor " + in_quotes(info.name) + " is in another file as well");
    names_.push_back(info.name);
  }
  files_.push_back(std::move(file));
}

}  // namespace heed::inline v0
