#include <algorithm>
#include <cmath>
#include <set>

#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

// What makes up a model beside its tensors. The index is of files that become one.
std::vector<std::string> texts_of(const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& name : list_files(directory))
    for (const char* ending : {".json", ".txt", ".model", ".spm", ".md", ".jinja"})
      if (name.ends_with(ending) && !name.ends_with(".safetensors.index.json")) names.push_back(name);
  return names;
}

Tensor in_dtype(const Tensor& tensor, DType dtype, const std::string& name) {
  const Tensor to = tensor.to(dtype), after = to.to(DType::f32).contiguous();
  const std::span<float> values = after.span<float>();
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    throw FormatError("save_pretrained: tensor '" + name + "' is not finite in " + name_of(dtype) +
                      "; such a model cannot be used, train it anew");
  return to;
}

// What the files had: parameters as they are now, the rest as it was.
NamedTensors tensors_of(const PretrainedModel& model) {
  const TensorFiles& files = model.layout->tensors;
  NamedTensors own;
  for (const auto& [name, parameter] : model.module->named_parameters()) own.emplace_back(name, parameter.value());
  NamedTensors all = write_named(model.layout->names, own, files.names(),
                                 [&](const std::string& name) { return files.info(name).shape; });
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

PretrainedLayout::PretrainedLayout(const std::string& directory)
    : tensors(directory), text_names(texts_of(directory)), texts(directory, text_names) {}

void save_pretrained(const PretrainedModel& model, const std::string& directory) {
  if (!model.layout)
    throw UsageError(
        "save_pretrained: the model did not come from a directory, whose layout it could be saved in; where it came "
        "from "
        "a GGUF file, load the directory that the file was made of");
  const NamedTensors tensors = tensors_of(model);
  DirectoryTransaction transaction(directory);
  if (!list_files(directory).empty())
    throw UsageError("save_pretrained: " + directory + " has files; give a new or an empty directory");
  for (const std::string& name : model.layout->text_names) transaction.write(name, model.layout->texts.read(name));
  // transformers asks for the format.
  transaction.write(kModelFile, [&](FileWriter& file) { write_safetensors(file, tensors, {{"format", "pt"}}); });
  transaction.commit();
}

}  // namespace heed::inline v0
