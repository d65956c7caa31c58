#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

// Whether to copy a file next to the tensors: those that model readers use, and licences. heed does not write files
// with unknown names. Training state and adapters belong to other models.
bool is_text(const std::string& name) {
  return is_model_file(name) && !name.ends_with(".safetensors") && name != kShardIndexFile && name != kStateFile &&
         name != kLogFile && name != kTrainOptionsFile && name != kAdapterConfigFile;
}

// Whether a file has weights that other programs may load instead of model.safetensors, and that heed does not remove.
bool is_foreign_weights(const std::string& name) {
  constexpr const char* kBeginnings[] = {"pytorch_model", "tf_model", "flax_model", "consolidated"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](const char* beginning) { return name.starts_with(beginning); });
}

// Whether a file belongs to a model of sentence-transformers. A model with classes is not one.
bool is_for_vectors(const std::string& name) {
  return name == kModulesFile || name == "config_sentence_transformers.json" ||
         (name.starts_with("sentence_") && name.ends_with("_config.json"));
}

bool has_classes(const PretrainedHead& head) {
  return head.task == HeadTask::text_classes || head.task == HeadTask::token_classes || head.task == HeadTask::answers;
}

constexpr uint64_t kLargestModule = uint64_t{1} << 30;  // bytes of a module's file

Tensor in_dtype(const Tensor& tensor, DType dtype, const std::string& name) {
  const Tensor to = tensor.to(dtype), after = to.to(DType::f32).contiguous();
  const std::span<float> values = after.span<float>();
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    throw FormatError("save_pretrained: tensor '" + name + "' is not finite in " + name_of(dtype) +
                      "; such a model cannot be used, train it again");
  return to;
}

// The parameters under their names in the files.
NamedTensors by_their_names(const PretrainedLayout& layout, NamedTensors own) {
  for (auto& [name, tensor] : own)
    if (is_quantised(tensor.dtype())) tensor = tensor.to(DType::f32);  // so that it can be transposed
  if (const auto& rewritten = layout.rewritten) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : rewritten->shapes) names.push_back(name);
    return write_named(layout.names, own, names, [&](const std::string& name) { return rewritten->shapes.at(name); });
  }
  return write_named(layout.names, own, layout.tensors.names(),
                     [&](const std::string& name) { return layout.tensors.info(name).shape; });
}

// All tensors of the files: parameters with their current values, the rest unchanged.
NamedTensors tensors_of(const PretrainedModel& model, const NamedTensors& own) {
  const TensorFiles& files = model.layout->tensors;
  NamedTensors all = by_their_names(*model.layout, own);
  if (const auto& rewritten = model.layout->rewritten) {
    for (auto& [name, tensor] : all) {
      const std::optional<DType> stored = files.contains(name) ? files.info(name).dtype : std::nullopt;
      tensor = in_dtype(tensor, stored && is_floating(*stored) ? *stored : rewritten->dtype, name);
    }
    return all;
  }
  std::set<std::string> written;
  for (auto& [name, tensor] : all) {
    tensor = in_dtype(tensor, *files.info(name).dtype, name);
    written.insert(name);
  }
  for (const std::string& name : copies_in(model.layout->names, files.names())) written.insert(name);
  for (const std::string& name : files.names())
    if (!written.contains(name)) all.emplace_back(name, files.tensor(name));
  return all;
}

}  // namespace

void write_pretrained(FileWriter& file, const PretrainedModel& model, const NamedTensors& parameters) {
  if (!model.layout) throw UsageError("write_pretrained: the model was not loaded by load_pretrained");
  // transformers requires the metadata "format".
  write_safetensors(file, tensors_of(model, parameters), {{"format", "pt"}});
}

std::map<std::string, std::string> pretrained_texts(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("pretrained_texts: the model was not loaded by load_pretrained");
  std::map<std::string, std::string> texts;
  for (const std::string& name : model.layout->files.names())
    if (is_text(name) && !(has_classes(model.head) && is_for_vectors(name)))
      texts[name] = model.layout->files.read(name);
  texts[kConfigFile] = model.layout->config;
  return texts;
}

std::map<std::string, std::string> module_files(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("module_files: the model was not loaded by load_pretrained");
  std::map<std::string, std::string> found;
  if (has_classes(model.head)) return found;
  for (const auto& [directory, files] : model.layout->modules)
    for (const std::string& name : files.names()) found[directory + "/" + name] = files.read(name, kLargestModule);
  return found;
}

NamedTensors pretrained_tensors(const PretrainedModel& model) {
  if (!model.layout) throw UsageError("pretrained_tensors: the model was not loaded from a directory");
  NamedTensors parameters;
  for (const auto& [name, parameter] : model.module->named_parameters())
    parameters.emplace_back(name, parameter.value());
  return by_their_names(*model.layout, std::move(parameters));
}

void check_pretrained_target(const std::string& given, const std::string& directory) {
  if (!std::filesystem::exists(directory)) return;
  const std::vector<std::string> names = list_files(directory);
  if (names.empty()) return;
  throw UsageError(given + " has files (" + names.front() + ", for one); give a new or an empty directory");
}

static void check_module_target(const std::string& directory) {
  const std::string given = "save_pretrained: " + directory;
  std::error_code error;
  if (std::filesystem::is_symlink(directory, error))
    throw UsageError(given + " is a symbolic link, which is not followed; remove it, or name another directory");
  check_pretrained_target(given, directory);
}

// Whether the model was loaded from the directory.
static bool is_directory_of(const PretrainedModel& model, const std::string& directory) {
  std::error_code error;
  return !model.layout->directory.empty() && std::filesystem::equivalent(model.layout->directory, directory, error);
}

// The directory of the model itself, whose weights and configuration are replaced. Its other files stay.
static void check_own_directory(const std::string& given, const std::string& directory) {
  const std::vector<std::string> names = list_files(directory);
  if (const auto found = std::find_if(names.begin(), names.end(), is_foreign_weights); found != names.end())
    throw UsageError(given + " holds " + *found +
                     ", weights of the old model in a file that heed does not remove; remove it, or name another "
                     "directory");
  for (const char* const name : {kStateFile, kLogFile, kAdapterConfigFile})
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError(given + " holds " + name + " of a training or of adapters; name another directory");
}

// Removes weights in several files, and what is not true of a model with classes.
static void remove_replaced(DirectoryTransaction& transaction, const PretrainedModel& model,
                            const std::string& directory) {
  for (const std::string& name : list_files(directory)) {
    const bool is_shard = is_model_file(name) && name.starts_with("model-") && name.ends_with(".safetensors");
    if (is_shard || name == kShardIndexFile || (has_classes(model.head) && is_for_vectors(name)))
      transaction.remove(name);
  }
}

void save_pretrained(const PretrainedModel& model, const std::string& directory, Existing existing) {
  if (!model.layout)
    throw UsageError(
        "save_pretrained: the model did not come from a directory, whose layout it could be saved in; where it came "
        "from a GGUF file, load the directory that the file was made of");
  const std::string given = "save_pretrained: " + directory;
  const bool own = is_directory_of(model, directory);
  const auto check_directory = [&] {
    if (!own) return check_pretrained_target(given, directory);
    if (existing == Existing::refuse)
      throw UsageError(given + " holds the model that was loaded; pass Existing::replace to replace it, or name " +
                       "another directory");
    check_own_directory(given, directory);
  };
  check_directory();
  std::map<std::string, std::string> texts = pretrained_texts(model), of_modules;
  if (!own) of_modules = module_files(model);
  const auto beside = [&](const std::string& path) { return directory + "/" + path.substr(0, path.find('/')); };
  for (const auto& [path, content] : of_modules) check_module_target(beside(path));
  if (own) texts = {{kConfigFile, texts.at(kConfigFile)}};
  NamedTensors parameters;
  for (const auto& [name, parameter] : model.module->named_parameters())
    parameters.emplace_back(name, parameter.value());
  DirectoryTransaction transaction(directory);
  check_directory();  // again, now that no other process writes there
  for (const auto& [name, text] : texts) transaction.write(name, text);
  transaction.write(kModelFile, [&](FileWriter& file) { write_pretrained(file, model, parameters); });
  if (own) remove_replaced(transaction, model, directory);
  std::map<std::string, DirectoryTransaction> modules;  // by directory
  for (const auto& [path, content] : of_modules)
    modules.try_emplace(beside(path), beside(path)).first->second.write(path.substr(path.find('/') + 1), content);
  // The directory holds no model before its own commit, which comes last.
  for (auto& [path, module] : modules) module.commit();
  transaction.commit();
}

}  // namespace heed::inline v0
