// Lists the content of a directory or a file of tensors; reads headers only.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "core/gguf.h"
#include "heed/checked.h"
#include "heed/file_kind.h"
#include "heed/load.h"
#include "load/configuration.h"

namespace heed::inline v0 {
namespace {

namespace fs = std::filesystem;

void add(StoredTensors& file, StoredTensor tensor) {
  file.numbers += checked_product(tensor.shape).value_or(0);  // already checked against the length of the file
  file.bytes += tensor.bytes;
  file.tensors.push_back(std::move(tensor));
}

StoredTensor tensor_of(const std::string& name, const NpyInfo& info) {
  return {name, info.descr + (info.fortran_order ? " Fortran order" : ""), info.shape, info.data_bytes};
}

StoredTensors tensors_of(const std::string& name, const SafetensorsFile& from) {
  StoredTensors file{.file = name, .format = "safetensors"};
  file.metadata = from.metadata();
  for (const TensorInfo& info : from.tensors())
    add(file, {info.name, info.dtype_name, info.shape, info.end - info.begin});
  return file;
}

StoredTensors inspect_gguf(const std::string& path, const std::string& name) {
  const GgufFile from(path);
  StoredTensors file{.file = name, .format = "gguf"};
  for (const GgufTensor& tensor : from.tensors())
    add(file, {tensor.name, tensor.type ? tensor.type->name : "type " + std::to_string(tensor.type_id), tensor.shape,
               tensor.bytes});
  for (const char* key : {"general.architecture", "general.name"})
    if (const auto text = from.text(key)) file.metadata[key] = std::string(*text);
  return file;
}

// A name may say nothing of the format; the beginning of the file does.
void expect_safetensors(const std::string& path) {
  if (std::error_code error; !fs::is_regular_file(path, error)) return;  // opening it says why
  std::ifstream file(path, std::ios::binary);
  std::string begin(16, '\0');
  file.read(begin.data(), std::ssize(begin));
  if (!file && !file.eof()) return;
  begin.resize(static_cast<size_t>(file.gcount()));
  const std::string_view format = foreign_format(begin);
  if (format == "a safetensors file") return;
  throw FormatError(path + ": " + (format.empty() ? "not a file of tensors" : "this is " + std::string(format)) +
                    "; give a model's directory, or a .safetensors, .gguf, .npy or .npz file");
}

StoredTensors inspect_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (is_gguf(path.string())) return inspect_gguf(path.string(), name);
  if (path.extension() == ".npy") {
    StoredTensors file{.file = name, .format = "npy"};
    add(file, tensor_of(path.stem().string(), read_npy_info(path.string())));
    return file;
  }
  if (path.extension() == ".npz") {
    StoredTensors file{.file = name, .format = "npz"};
    for (const auto& [array, info] : read_npz_info(path.string())) add(file, tensor_of(array, info));
    return file;
  }
  if (path.extension() != ".safetensors") expect_safetensors(path.string());
  return tensors_of(name, SafetensorsFile(path.string()));
}

// 0 for a third-party vocabulary, which is not loaded.
int64_t own_pieces(std::string text, const std::string& path) {
  try {
    return Vocabulary::from_bytes(std::move(text), path).size();
  } catch (const UntrustedError&) {
    return 0;
  }
}

bool is_opened(const std::string& name) {
  return name.ends_with(".safetensors") || name == kConfigFile || name == kVocabularyFile ||
         name == kSourceVocabularyFile;
}

/// The files of one save. The directory is listed before and after the snapshot, since a save in between may add and
/// remove files.
std::vector<std::string> hold_files(const std::string& directory, std::optional<DirectorySnapshot>& files) {
  constexpr int kMostTries = 100;
  std::vector<std::string> names = list_files(directory);
  for (int tries = 1;; ++tries) {
    std::vector<std::string> opened;
    std::copy_if(names.begin(), names.end(), std::back_inserter(opened), is_opened);
    files.emplace(directory, opened);
    std::vector<std::string> after = list_files(directory);
    if (after == names || tries == kMostTries) return names;
    names = std::move(after);
  }
}

StoredFiles inspect_directory(const fs::path& directory) {
  StoredFiles found;
  std::optional<DirectorySnapshot> held;
  std::vector<std::string> names = hold_files(directory.string(), held);
  const DirectorySnapshot& files = *held;
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kModelFile; });
  const auto others = std::stable_partition(names.begin(), names.end(), is_opened);
  for (auto it = others; it != names.end(); ++it) {
    std::error_code gone;
    if (const auto bytes = fs::file_size(directory / *it, gone); !gone) found.others.emplace_back(*it, bytes);
  }
  names.erase(others, names.end());
  for (const std::string& name : names) {
    if (!files.contains(name)) continue;  // removed since it was listed
    if (name.ends_with(".safetensors")) {
      found.tensors.push_back(tensors_of(name, files.safetensors(name)));
    } else if (name == kConfigFile) {
      found.config = files.read(name, kLargestConfig);
    } else {
      std::string text = files.read(name, kLargestVocabulary);
      const uint64_t bytes = text.size();
      found.vocabularies.push_back({name, own_pieces(std::move(text), (directory / name).string()), bytes});
    }
  }
  if (found.tensors.empty() && !found.config)
    throw FormatError(directory.string() + ": no .safetensors and no config.json; is this a checkpoint?");
  if (found.config) ConfigReader(*found.config, (directory / kConfigFile).string());  // checks that it is an object
  return found;
}

}  // namespace

StoredFiles inspect(const std::string& path) {
  std::error_code error;  // ignored: opening the file gives a better message
  // A missing path that looks like a directory: reading the directory gives the message.
  if (fs::is_directory(path, error) || (!fs::exists(path, error) && !fs::path(path).has_extension()))
    return inspect_directory(path);
  return {.tensors = {inspect_file(path)}};
}

void check(const StoredFiles& files, const std::string& directory) {
  if (is_pretrained(directory)) {
    load(directory);  // maps the tensors
    return;
  }
  const ModelPlan plan = read_plan(files.config.value_or(""), directory + "/" + kConfigFile);
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    const auto held = std::find_if(files.vocabularies.begin(), files.vocabularies.end(),
                                   [&](const StoredVocabulary& v) { return v.file == vocabulary_file(i); });
    if (held == files.vocabularies.end())
      throw FormatError(directory + " lacks " + vocabulary_file(i) + ", which belongs to its " + kConfigFile);
    if (held->pieces > 0) check_pieces(directory, held->file, held->pieces, plan.pieces[i]);
  }
  for (const StoredTensors& file : files.tensors)
    if (file.file == kModelFile) check_parameters(directory + "/" + kModelFile, file.numbers, plan.parameters);
}

}  // namespace heed::inline v0
