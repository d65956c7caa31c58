#include <filesystem>

#include "heed/checked.h"
#include "heed/model_files.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "pretrained/family.h"
#include "pretrained/gguf.h"
#include "pretrained/layout.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kGenerationFile = "generation_config.json";

// Older files have these keys in config.json.
void read_writing(const Keys& keys, PretrainedModel& model) {
  model.stop = keys.ids("eos_token_id");
  BeamOptions& beam = model.beam;
  beam.until_no_better = true;
  beam.beam = keys.integer("num_beams", 1, 1000, 1);
  beam.length_penalty = keys.number("length_penalty", -100, 100, 1);
  beam.renormalize = keys.flag("renormalize_logits", false);
  if (keys.has("forced_bos_token_id")) beam.first_token = keys.ids("forced_bos_token_id").at(0);
  if (keys.has("forced_eos_token_id")) beam.last_token = keys.ids("forced_eos_token_id").at(0);
  for (const std::vector<int32_t>& word : keys.lists_of_ids("bad_words_ids"))
    if (word.size() == 1) beam.never.push_back(word[0]);
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
  read_writing(config, result);
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
  read_writing(files.contains(kGenerationFile) ? read_keys(files, kGenerationFile) : config, result);
  return result;
}

}  // namespace heed::inline v0
