#include "cli/load_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "cli/commands.h"

namespace heed::cli {

void add_load_options(CLI::App& command, LoadOptions& options) {
  command.add_flag("--trust", options.trust, "Load a vocabulary that heed did not make");
  const auto set = [&options](const std::string& name) {
    options.dtype = name == "int8" ? DType::q8 : name == "bf16" ? DType::bf16 : name == "f16" ? DType::f16 : DType::f32;
  };
  command
      .add_option_function<std::string>("--dtype", set, "Keep the model's matrices in this precision [as its files]")
      ->transform(one_of({"f32", "f16", "bf16", "int8"}));
  command
      .add_option("--base", options.base,
                  "Of adapters: the directory of the model that they are for [as adapter_config.json says]")
      ->type_name("DIR");
}

}  // namespace heed::cli
