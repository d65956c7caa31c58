#include <filesystem>

#include "heed/checked.h"
#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "heed/speech_transformer.h"
#include "pretrained/family.h"
#include "pretrained/generation.h"
#include "pretrained/gguf.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kGenerationFile = "generation_config.json";

// How a model that writes is to be written with.
void read_writing(const DirectorySnapshot& files, const Keys& config, PretrainedModel& model) {
  const bool own_file = files.contains(kGenerationFile);
  if (dynamic_cast<const LanguageModel*>(model.module.get()) || dynamic_cast<const Transformer*>(model.module.get()))
    read_generation(own_file ? read_keys(files, kGenerationFile) : config, /*of_config=*/!own_file, model);
  else if (dynamic_cast<const SpeechTransformer*>(model.module.get()))  // transcribe() leaves the rest to its caller
    model.generate.stop = (own_file ? read_keys(files, kGenerationFile) : config).ids("eos_token_id");
}

// Matrices stay in the bits that they have; everything else becomes float32.
void widen(NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors)
    if (tensor.rank() != 2 || tensor.dtype() == DType::f64) tensor = tensor.to(DType::f32);
}

// The model that `config` describes, made of the tensors `stored` that `read` gives.
std::unique_ptr<Module> assemble(const Keys& config, const Described& described, const std::vector<std::string>& stored,
                                 const ReadTensor& read, const std::string& where) {
  std::unique_ptr<Module> module;
  try {
    const ShapesOnly shapes_only;  // its tensors come from the files
    module = described.make();
  } catch (const ShapeError& e) {
    throw FormatError(config.where() + ": " + e.what());
  }
  NamedTensors tensors = read_named(described.names, *module, stored, read, where);
  widen(tensors);
  try {
    module->adopt(tensors);
  } catch (const FormatError& e) {
    throw FormatError(where + ": " + e.what());
  }
  module->eval();
  return module;
}

PretrainedModel load_gguf(const std::string& path) {
  const GgufModel file(path);
  const Keys& config = file.config();
  Described described = family_of(config).describe(config, file.names());
  described.names = file.renamed(std::move(described.names));
  PretrainedModel result{
      .model_type = config.text("model_type"),
      .config = config.json(),
      .module = assemble(
          config, described, file.names(), [&](const std::string& name) { return file.tensor(name); }, path)};
  result.generate = {.sampling = kReadableSampling, .stop = config.ids("eos_token_id")};
  result.sampling = kReadableSampling;
  return result;
}

}  // namespace

PretrainedModel load_pretrained(const std::string& path) {
  if (is_gguf(path)) return load_gguf(path);
  if (std::filesystem::is_regular_file(path))
    throw FormatError(path + ": this is no GGUF file; pass one, or the directory of a model");
  return load_pretrained(files_of_model(path));
}

PretrainedModel load_pretrained(const DirectorySnapshot& files) {
  const Keys config = read_keys(files, kConfigFile);
  const Family& family = family_of(config);
  auto layout = std::make_shared<PretrainedLayout>(files);
  const TensorFiles& tensors = layout->tensors;
  const Described described = family.describe(config, tensors.names());
  layout->names = described.names;
  PretrainedModel result{.model_type = config.text("model_type"),
                         .config = config.json(),
                         .module = assemble(
                             config, described, tensors.names(),
                             [&](const std::string& name) { return tensors.tensor(name); }, tensors.where()),
                         .head = described.head,
                         .layout = layout};
  read_writing(files, config, result);
  return result;
}

}  // namespace heed::inline v0
