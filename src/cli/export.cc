// heed export: the part of a model directory that translating needs, in a chosen precision.
#include <filesystem>
#include <memory>

#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/model_card.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

struct ExportOptions {
  std::string model, to, dtype = "f16";
};

void export_model(const ExportOptions& options) {
  const DType dtype = options.dtype == "f16" ? DType::f16 : options.dtype == "bf16" ? DType::bf16 : DType::f32;
  DirectoryTransaction::recover(options.model);
  const auto text = [&](const char* file) { return read_file(options.model + "/" + file); };
  const std::string config = text(kConfigFile), vocabulary = text(kVocabularyFile);
  read_config(config, options.model + "/" + kConfigFile);
  const SafetensorsFile file(options.model + "/" + kModelFile);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name).to(dtype));
  DirectoryTransaction transaction(options.to);
  transaction.write(kConfigFile, config);
  transaction.write(kVocabularyFile, vocabulary);
  transaction.write(kModelFile, [&](FileWriter& out) { write_safetensors(out, tensors, file.metadata()); });
  if (std::filesystem::exists(options.model + "/" + kModelCardFile))
    transaction.write(kModelCardFile, text(kModelCardFile));
  transaction.commit();
}

}  // namespace

void add_export(CLI::App& program) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* command = program.add_subcommand(
      "export", "Copy a trained model without its training state, in half precision if you like");
  command->add_option("--model", options->model, "Directory that heed train wrote")->required()->type_name("DIR");
  command->add_option("--to", options->to, "Directory to write")->required()->type_name("DIR");
  command->add_option("--dtype", options->dtype, "Precision of the weights")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command->footer("Example:\n  heed export --model my-model --to my-model-f16 --dtype f16");
  command->callback([options] { export_model(*options); });
}

}  // namespace heed::cli
