// heed export: the part of a model directory that translating needs, in a chosen precision.
#include <map>
#include <memory>
#include <type_traits>

#include "cli/commands.h"
#include "cli/paths.h"
#include "heed/load.h"
#include "heed/pretrained.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

struct ExportOptions {
  std::string model, to, dtype, base;
  bool trust = false, overwrite = false;
  Existing existing() const { return overwrite ? Existing::replace : Existing::refuse; }
};

// Names and shapes must be those of the model that config.json describes.
template <class Config>
void check_tensors(const Config& config, const NamedTensors& tensors, const std::string& path) {
  const NoInit no_init;
  try {
    std::conditional_t<std::is_same_v<Config, TransformerConfig>, Transformer, LanguageModel>(config).load(tensors);
  } catch (const FormatError& e) {
    throw FormatError(path + ": " + e.what());
  }
}

void expect_target(const ExportOptions& options) {
  const std::string to = "--to " + options.to;
  if (same_file(options.model, options.to))
    throw UsageError(to + " is the model that is exported; name another directory");
  check_target(to, options.to, options.existing(), "give --overwrite");
}

// Another maker's model stays in its layout and its dtypes; adapters are merged.
void export_pretrained(const ExportOptions& options) {
  if (!options.dtype.empty())
    throw UsageError("--dtype is for heed's own models; " + options.model + " is another maker's, and keeps its own");
  if (same_file(options.model, options.to))
    throw UsageError("--to " + options.to + " is the model that is exported; name another directory");
  check_pretrained_target("--to " + options.to, options.to);
  save_pretrained(load(options.model, {.trust = options.trust, .base = options.base}).pretrained(), options.to);
}

void export_model(const ExportOptions& options) {
  expect_writable_directory("--to", options.to);
  if (is_pretrained(options.model)) return export_pretrained(options);
  if (!options.base.empty()) throw UsageError("--base is for adapters; " + options.model + " is a model of heed's own");
  const DType dtype = options.dtype == "f32" ? DType::f32 : options.dtype == "bf16" ? DType::bf16 : DType::f16;
  expect_target(options);
  std::vector<std::string> names = kModelFiles;
  for (std::string& name : list_files(options.model))
    if (is_lasting_text(name)) names.push_back(std::move(name));
  const DirectorySnapshot files(options.model, names);
  std::map<std::string, std::string> texts = {{kConfigFile, files.read(kConfigFile, kLargestConfig)}};
  const ModelConfig config = read_config(texts[kConfigFile], options.model + "/" + kConfigFile);
  const std::vector<VocabularyText> vocabularies = read_vocabularies(files, config);
  check_vocabularies(vocabularies, options.model, options.trust);
  for (const VocabularyText& vocabulary : vocabularies) texts[vocabulary.file] = vocabulary.text;
  for (const std::string& name : names)
    if (!texts.contains(name) && name != kModelFile && files.contains(name)) texts[name] = files.read(name);
  const SafetensorsFile file = files.safetensors(kModelFile);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  check_size(config, file);
  std::visit([&](const auto& c) { check_tensors(c, tensors, file.path()); }, config);
  for (auto& [name, tensor] : tensors) tensor = converted(tensor, name, dtype, file.path());
  DirectoryTransaction transaction(options.to);
  expect_target(options);  // again, now that no other process writes there
  write_model(transaction, texts, tensors, file.metadata());
}

}  // namespace

void add_export(CLI::App& program) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* command = program.add_subcommand(
      "export", "Copy a trained model without its training state, in half precision if you like");
  command->add_option("-m,--model", options->model, "Directory that heed train wrote")->required()->type_name("DIR");
  command->add_option("-o,--to,--output", options->to, "Directory to write")->required()->type_name("DIR");
  command
      ->add_option("--base", options->base,
                   "Of adapters: the directory of the model that they are for [as adapter_config.json says]")
      ->type_name("DIR");
  command->add_flag("--overwrite", options->overwrite, "Replace the model of heed's own that the directory holds");
  command->add_flag("--trust", options->trust, "Copy a vocabulary that heed did not make");
  command->add_option("--dtype", options->dtype, "Precision of the weights")
      ->transform(one_of({"f32", "f16", "bf16"}))
      ->default_str("f16");
  command->footer("Example:\n  heed export --model my-model --to my-model-f16 --dtype f16");
  command->callback([options] {
    export_model(*options);
    note("wrote " + options->to);
  });
}

}  // namespace heed::cli
