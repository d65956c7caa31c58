#include <algorithm>
#include <filesystem>

#include "heed/checked.h"
#include "heed/finite.h"
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
constexpr uint64_t kLargestConfig = 1 << 20;  // bytes

// Sets the generation options of a model that generates text.
void read_writing(const DirectorySnapshot& files, const Keys& config, PretrainedModel& model) {
  const bool own_file = files.contains(kGenerationFile);
  if (dynamic_cast<const LanguageModel*>(model.module.get()) || dynamic_cast<const Transformer*>(model.module.get()))
    read_generation(own_file ? read_keys(files, kGenerationFile) : config, /*of_config=*/!own_file, model);
  else if (dynamic_cast<const SpeechTransformer*>(model.module.get()))  // transcribe() takes the rest from its caller
    model.generate.stop = (own_file ? read_keys(files, kGenerationFile) : config).ids("eos_token_id");
}

// Matrices keep their dtype; everything else becomes float32.
void widen(NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors)
    if (tensor.rank() != 2 || tensor.dtype() == DType::f64) tensor = tensor.to(DType::f32);
}

// The model that `config` describes, from the tensors `stored`, which `read` loads.
std::unique_ptr<Module> assemble(const Keys& config, const Described& described, const TensorSource& stored,
                                 const std::string& where) {
  std::unique_ptr<Module> module;
  try {
    const ShapesOnly shapes_only;  // its tensors come from the files
    module = described.make();
  } catch (const ShapeError& e) {
    throw FormatError(config.where() + ": " + e.what());
  }
  NamedTensors tensors = read_named(described.names, *module, stored.names, stored.read, where);
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
  const Family& family = family_of(file.config());
  const std::string type = file.config().text("model_type");
  const Keys config = file.config().under(family.keys(type));
  const ReadTensor read = [&](const std::string& name) { return file.tensor(name); };
  const TensorSource stored{file.names(), read};
  Described described = family.describe(config, {file.hub_names(), read});
  described.names = file.renamed(std::move(described.names));
  PretrainedModel result{
      .model_type = type, .config = config.json(), .module = assemble(config, described, stored, path)};
  result.generate = {.sampling = kReadableSampling, .stop = file.config().ids("eos_token_id")};
  result.sampling = kReadableSampling;
  result.module->set_search_files([path]() -> std::optional<std::string> {
    try {
      const GgufModel again(path);
      for (const std::string& name : again.names()) {
        const std::pair<std::string, Tensor> one{name, again.tensor(name)};
        if (const auto found = first_non_finite({&one, 1})) return path + ": " + *found;
      }
    } catch (const Error&) {  // it has gone
    }
    return std::nullopt;
  });
  return result;
}

std::vector<int64_t> shape_of(const Tensor& tensor) {
  const Dims dims = tensor.shape();
  return {dims.begin(), dims.end()};
}

// Gives a layout new tensors, one for each parameter. Needed where the tensors are not those of the files, or where
// several parameters share a tensor of the files.
void rewrite(PretrainedLayout& layout, const Module& module, const TensorSource& source) {
  const auto shape = [&](const std::string& name) { return shape_of(source.read(name)); };
  const auto& names = layout.tensors.names();
  const auto parameter = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    const std::optional<DType> stored = layout.tensors.info(name).dtype;
    return stored && is_floating(*stored);
  });
  const DType dtype = parameter == names.end() ? DType::f32 : *layout.tensors.info(*parameter).dtype;
  layout.rewritten = {rewritten_shapes(layout.names, module, source.names, shape), dtype};
  layout.names.ties = {};
}

}  // namespace

PretrainedModel load_pretrained(const std::string& path) {
  if (is_gguf(path)) return load_gguf(path);
  if (std::filesystem::is_regular_file(path))
    throw FormatError(path + ": this is not a GGUF file; pass one, or the directory of a model");
  const DirectorySnapshot files = files_of_model(path);
  return load_with_overrides(files, {.config = files.read(kConfigFile, kLargestConfig),
                                     .directory = std::filesystem::absolute(path).string(),
                                     .modules = modules_beside(files, path)});
}

PretrainedModel load_pretrained(const DirectorySnapshot& files) {
  return load_with_overrides(files, {.config = files.read(kConfigFile, kLargestConfig)});
}

Names names_of_files(const std::string& config, const std::string& where, const TensorFiles& files) {
  const Keys given = keys_in(config, where);
  const Family& family = family_of(given);
  const TensorSource source{files.names(), [&](const std::string& name) { return files.tensor(name); }};
  return family.describe(given.under(family.keys(given.text("model_type"))), source).names;
}

PretrainedModel load_with_overrides(const DirectorySnapshot& files, const Overrides& overrides) {
  const std::string where = files.path(kConfigFile);
  const Keys given = keys_in(overrides.config, where);
  const Family& family = family_of(given);
  const std::string type = given.text("model_type");
  const Keys config = given.under(family.keys(type));
  auto layout = std::make_shared<PretrainedLayout>(files);
  layout->config = overrides.config;
  layout->directory = overrides.directory;
  layout->modules = overrides.modules;
  const TensorFiles& tensors = layout->tensors;
  std::vector<std::string> names = tensors.names();
  std::erase_if(names, [&](const std::string& name) {
    return std::find(overrides.without.begin(), overrides.without.end(), name) != overrides.without.end();
  });
  for (const auto& [name, tensor] : overrides.tensors)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  const TensorSource source{names, [&](const std::string& name) {
                              const auto other = overrides.tensors.find(name);
                              return other == overrides.tensors.end() ? tensors.tensor(name) : other->second;
                            }};
  const Described described = family.describe(config, source);
  layout->names = described.names;
  PretrainedModel result{.model_type = type,
                         .config = given.json(),
                         .module = assemble(config, described, source, tensors.where()),
                         .head = described.head,
                         .layout = layout};
  const bool reshaped = std::any_of(overrides.tensors.begin(), overrides.tensors.end(), [&](const auto& named) {
    return tensors.contains(named.first) && tensors.info(named.first).shape != shape_of(named.second);
  });
  if (names != tensors.names() || reshaped || shares_tensors(layout->names, *result.module, names))
    rewrite(*layout, *result.module, source);
  read_writing(files, given, result);
  result.module->set_search_files([layout] { return layout->tensors.first_non_finite(); });
  return result;
}

}  // namespace heed::inline v0
