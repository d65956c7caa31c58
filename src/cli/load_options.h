// How a model is loaded, as options of the commands that compute with one.
#pragma once

#include "heed/load.h"

namespace CLI {
class App;
}

namespace heed::cli {

/// --trust, --dtype and --base. `options` must outlive the command.
void add_load_options(CLI::App& command, LoadOptions& options);

}  // namespace heed::cli
